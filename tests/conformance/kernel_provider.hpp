// SPDX-License-Identifier: Apache-2.0
// A provider whose card runs kernels: what the part of the suite needs that launches some.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "tests/conformance/provider.hpp"

namespace svp::conformance {

class KernelProvider : public Provider {
 public:
  // As the firmware's build packed it.
  virtual std::vector<std::byte> kernel_image(std::string_view name) = 0;
  // The firmware's code and constants as they are in the card's memory now, whatever the harts do.
  virtual std::vector<std::byte> firmware_code() = 0;
  // A runtime on the function under test, and one on a bystander. They own their function like a Device.
  virtual std::unique_ptr<svp::Context> open_context() = 0;
  virtual std::unique_ptr<svp::Context> open_bystander_context(unsigned which = 0) = 0;
};

// The program's backend, which is the same object as provider().
KernelProvider& kernel_provider();

}  // namespace svp::conformance
