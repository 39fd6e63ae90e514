// SPDX-License-Identifier: Apache-2.0
// The program of libflex (tests/validation/flex_tenant) on a function of a long-lived card, as a scenario asks it.
#pragma once

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/piped_process.hpp"

namespace svp::campaign {

// A folder for its SpyreCode directories, removed at the end. Throws svp::Error.
class PlanFolder {
 public:
  PlanFolder();
  ~PlanFolder();
  PlanFolder(const PlanFolder&) = delete;
  PlanFolder& operator=(const PlanFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Of kernels: "illegal", whose kernel executes an illegal instruction, and "spin", whose kernel does not end. Throws
// svp::Error.
class FlexPlans {
 public:
  FlexPlans();
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  PlanFolder folder_;
};

class FlexProcess {
 public:
  // The program beside this one, with the plans of a folder, on a virtual function. Throws svp::Error when it is not
  // there, or cannot be started.
  FlexProcess(const std::filesystem::path& runtime_folder, const std::filesystem::path& plans,
              std::chrono::nanoseconds bound, unsigned virtual_function = kFaulting);

  // Its answer to a command, or "no answer".
  std::string ask(const std::string& command);
  // Throws svp::Error naming the answer when it is not "ok".
  void require(const std::string& command);
  // Gives these commands, one behind the other, up to the first one that is not answered by "ok"; the last answer.
  std::string ask_all(std::initializer_list<std::string> commands);
  // Empty: its input was closed and it ended well.
  std::string end();

 private:
  std::chrono::nanoseconds bound_;
  PipedProcess process_;
};

// What was thrown is of the type that the interface promises, and names one of the outcomes.
bool is_documented_failure(std::string_view answer, std::initializer_list<std::string_view> outcomes);

}  // namespace svp::campaign
