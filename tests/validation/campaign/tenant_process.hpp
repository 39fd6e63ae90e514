// SPDX-License-Identifier: Apache-2.0
// Tenants in processes of their own, for scenarios in which an owner dies or several are at work. The program is this
// one: `spyre fault-tenant CARD FUNCTION work|occupy SEED`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/validation/campaign/piped_process.hpp"

namespace svp::campaign {

enum class TenantTask : std::uint8_t {
  Work,    // good and bad jobs in random order, each judged; ends by itself
  Occupy,  // copies and an endless kernel until it is killed, or its input ends
};

class TenantProcess {
 public:
  // `card`: its folder. Throws svp::Error when it cannot be started.
  TenantProcess(const std::string& card, const std::string& function, TenantTask task, std::uint64_t seed);
  // Its line "working" has come.
  bool wait_working(std::chrono::nanoseconds bound);
  void kill() { process_.kill(); }
  // Its exit code, 128 + n for signal n; nothing when it still runs.
  std::optional<int> wait_end(std::chrono::nanoseconds bound) { return process_.wait_end(bound); }

 private:
  PipedProcess process_;
};

// What the process does. 0: everything was as it should be; 3: not, with a line on stderr.
int tenant_main(const std::string& card, const std::string& function, TenantTask task, std::uint64_t seed);

}  // namespace svp::campaign
