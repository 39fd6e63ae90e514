// SPDX-License-Identifier: Apache-2.0
// The files of a plan while they are made: the correction tensor of all launches in front, then binaries, one behind
// the other in program memory, each with the step that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {

// The files of a directory.
struct PlanFiles {
  SpyreCode code;
  struct Binary {
    std::string name;
    std::vector<std::byte> bytes;
  };
  std::vector<Binary> binaries;
};

// Each file appears complete or not at all, spyrecode.json last: until then a reader has the directory of before.
// Throws Error naming what cannot be written.
void write_plan(const std::filesystem::path& directory, const PlanFiles& files);

// The correction tensor of a device program: the addresses of its arguments. The runtime adds what is its own.
Hcm hcm_of_addresses(std::uint32_t arguments);

class PlanWriter {
 public:
  // Made by the host and sent before anything runs. At most once, before the first binary.
  void add_correction(const Hcm& hcm, std::uint64_t bytes);
  // `name`: of the step. The file is named after `file` and its content: a directory that is written again never has
  // the binary of one version and the plan of another. Equal binaries have one place.
  void add_compute(const std::string& name, const std::string& file, std::vector<std::byte> binary);
  // Takes what was made.
  PlanFiles take() { return std::move(files_); }

 private:
  std::uint64_t place(const std::string& file, std::vector<std::byte> binary);

  PlanFiles files_;
};

}  // namespace svp::spyrecode
