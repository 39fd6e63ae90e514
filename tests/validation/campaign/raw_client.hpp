// SPDX-License-Identifier: Apache-2.0
// VF3 in the hands of a driver that is not ours.
#pragma once

#include <string>

#include "tests/validation/campaign/scenario_context.hpp"
#include "tests/validation/raw/bare_slot.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace svp::campaign {

class RawClient {
 public:
  // Throws svp::Error when the function's window cannot be mapped.
  explicit RawClient(ScenarioContext& context);
  // The function is free again.
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  raw::RawDriver& driver() { return driver_; }
  raw::BareSlot& slot() { return slot_; }

  // From status 0 to a good job. Empty: right.
  std::string works();

 private:
  ScenarioContext& context_;
  raw::BareSlot slot_;
  raw::RawDriver driver_;
};

}  // namespace svp::campaign
