// SPDX-License-Identifier: Apache-2.0
// What a shell has to export so that torch-spyre finds this installation: libflex.so, the compiler, and, when it is
// built, the headers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"

namespace cli {

struct ShellVariable {
  std::string name{};
  std::string value{};

  bool operator==(const ShellVariable&) const = default;
};

// What the process has; empty when it is not set.
using ReadVariable = std::function<std::string(std::string_view name)>;

// `program` is the folder of the command line: <prefix>/bin, or <build>/host_driver/cli. With `build`, also what
// torch-spyre's setup.py reads. Lists keep what they had behind our folders; a folder stands in them once.
svp::Expected<std::vector<ShellVariable>> torch_variables(const std::filesystem::path& program, bool build,
                                                          const ReadVariable& read);

// `export NAME='VALUE'`, whatever characters the value has.
std::string as_shell_command(const ShellVariable& variable);

}  // namespace cli
