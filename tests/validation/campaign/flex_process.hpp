// SPDX-License-Identifier: Apache-2.0
// The program of libflex (tests/validation/flex_tenant) on VF1 of a long-lived card, as a scenario asks it.
#pragma once

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/validation/campaign/piped_process.hpp"

namespace svp::campaign {

// SpyreCode directories for it, removed at the end: "illegal", whose kernel executes an illegal instruction, and
// "spin", whose kernel does not end. Throws svp::Error.
class FlexPlans {
 public:
  FlexPlans();
  ~FlexPlans();
  FlexPlans(const FlexPlans&) = delete;
  FlexPlans& operator=(const FlexPlans&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class FlexProcess {
 public:
  // The program beside this one. Throws svp::Error when it is not there, or cannot be started.
  FlexProcess(const std::filesystem::path& runtime_folder, const FlexPlans& plans, std::chrono::nanoseconds bound);

  // Its answer to a command, or "no answer".
  std::string ask(const std::string& command);
  // Throws svp::Error naming the answer when it is not "ok".
  void require(const std::string& command);
  // Empty: its input was closed and it ended well.
  std::string end();

 private:
  std::chrono::nanoseconds bound_;
  PipedProcess process_;
};

// What was thrown is of the type that the interface promises, and names one of the outcomes.
bool is_documented_failure(std::string_view answer, std::initializer_list<std::string_view> outcomes);

}  // namespace svp::campaign
