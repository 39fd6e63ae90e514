// SPDX-License-Identifier: Apache-2.0
// The member `hcm` of a ComputeOnHost (docs/spyrecode.md): how the correction tensor of a launch is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

struct Vdci {
  std::vector<std::string> inputSym_;  // one per address that the host computation reads
};

// Copies share what was read.
struct Hcm {
  Vdci vdci;

  // Throws std::runtime_error: no JSON; a "vdci field" of the wrong type; an hcm of this project that is malformed,
  // naming the member. An hcm without inputs is accepted here and refused when it is executed.
  void importJsonStr(const std::string& text);

  std::shared_ptr<const void> content_;  // libflex's
};

#pragma GCC visibility pop
