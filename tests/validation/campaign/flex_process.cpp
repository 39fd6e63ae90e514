// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/flex_process.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

#include "host_driver/base/error.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/discovery/enumeration.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "host_driver/frontend/kernels.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "qemu/card.hpp"

namespace svp::campaign {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string what, std::string next_step) {
  throw Error({.layer = Layer::Driver,
               .source = "the program of libflex",
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = std::move(next_step),
               .message = std::move(what)});
}

std::string program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error).parent_path() / "spyre-flex-tenant";
  if (fs::is_regular_file(path, error)) return path.string();
  fail("there is no " + path.string(), "build it: scripts/build --target spyre-flex-tenant; or install it, too");
}

PipedProcess::Variables variables(const fs::path& runtime_folder, unsigned virtual_function) {
  PipedProcess::Variables all{{kRuntimeFolderVariable, runtime_folder.string()},
                              {kFlexDeviceVariable, "VF"},
                              {kVisibleDevicesVariable, std::to_string(virtual_function - 1)},
                              {kWorldSizeVariable, std::nullopt},
                              {kLocalRankVariable, std::nullopt}};
  // Only spyre-mutant has one, and the program beside that one asks for it.
  if (const HostMutant mutant = active_mutant(); mutant != HostMutant::None) {
    all[kMutantVariable] = std::to_string(static_cast<unsigned>(mutant));
  }
  return all;
}

void write_plan(const fs::path& directory, const char* kernel, const DimensionExtents& extents) {
  const auto firmware = value_or_throw(find_firmware());
  const CompiledKernel compiled(kernel_named(kernel, kernels_beside(firmware)), extents);
  ExecutionPlan({Job(compiled)}).write_directory(directory, SymbolicArguments::On);
}

}  // namespace

PlanFolder::PlanFolder() {
  std::string pattern = (fs::temp_directory_path() / "spyre-campaign-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) fail("no folder for its plans: " + pattern, "see to TMPDIR");
  path_ = pattern;
}

PlanFolder::~PlanFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

FlexPlans::FlexPlans() {
  write_plan(path() / "illegal", "stray", {{"offset", 64}, {"what", 4}});
  write_plan(path() / "spin", "spin", {});
}

FlexProcess::FlexProcess(const fs::path& runtime_folder, const fs::path& plans, std::chrono::nanoseconds bound,
                         unsigned virtual_function)
    : bound_(bound),
      process_(program(), {"spyre-flex-tenant", plans.string()}, variables(runtime_folder, virtual_function)) {}

std::string FlexProcess::ask(const std::string& command) {
  if (!process_.write_line(command)) return "no answer: it has ended";
  return process_.read_line(bound_).value_or("no answer");
}

void FlexProcess::require(const std::string& command) {
  const std::string answer = ask(command);
  if (!answer.starts_with("ok")) fail("'" + command + "': " + answer, "see what it says");
}

std::string FlexProcess::ask_all(std::initializer_list<std::string> commands) {
  std::string answer;
  for (const std::string& command : commands) {
    answer = ask(command);
    if (!answer.starts_with("ok")) break;
  }
  return answer;
}

std::string FlexProcess::end() {
  process_.close_input();
  const auto code = process_.wait_end(bound_);
  if (!code) return "it does not end";
  return *code == 0 ? std::string() : "it ended with " + std::to_string(*code);
}

bool is_documented_failure(std::string_view answer, std::initializer_list<std::string_view> outcomes) {
  return answer.starts_with("runtime_error ") && std::ranges::any_of(outcomes, [&](std::string_view outcome) {
           return answer.contains("outcome " + std::string(outcome));
         });
}

}  // namespace svp::campaign
