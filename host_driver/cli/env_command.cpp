// SPDX-License-Identifier: Apache-2.0
// `spyre env`: the variables of a shell in which torch-spyre is built or runs.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/shell_variables.hpp"

namespace cli {

int env(const EnvOptions& options) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto variables = svp::value_or_throw(torch_variables(program, options.build, [](std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    return std::string(value == nullptr ? "" : value);
  }));
  auto object = nlohmann::ordered_json::object();
  for (const ShellVariable& variable : variables) {
    object[variable.name] = variable.value;
    if (!options.json) fmt::print("{}\n", as_shell_command(variable));
  }
  if (options.json) print_json({{"variables", std::move(object)}});
  return kOk;
}

}  // namespace cli
