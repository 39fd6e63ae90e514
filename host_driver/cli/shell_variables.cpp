// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/shell_variables.hpp"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace cli {

namespace {

// Seen from the folder of the command line. The folder of a version has include and lib.
struct FolderPlace {
  const char* compiler;
  const char* library;
  const char* headers;  // nullptr: none
};
constexpr std::array kFolderPlaces = {
    FolderPlace{".", "../lib/spyre/flex-compat/" SPYRE_FLEX_VERSION "/lib",
                "../lib/spyre/flex-compat/" SPYRE_FLEX_VERSION "/include"},  // installed
    FolderPlace{"../compiler", "../compat/lib", nullptr},                    // build tree
};

bool holds(const std::filesystem::path& folder, const char* file) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder / file, error);
}

// `folder`, then what `list` has without it.
std::string in_front(const std::string& folder, const std::string& list) {
  std::string all = folder;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t end = std::min(list.find(':', from), list.size());
    const std::string_view entry = std::string_view(list).substr(from, end - from);
    if (!entry.empty() && entry != folder) all.append(":").append(entry);
    from = end + 1;
  }
  return all;
}

svp::ErrorInfo incomplete(const std::string& what) {
  return svp::refused_by_driver("installation", what,
                                "cmake --install BUILD --prefix PREFIX, then PREFIX/bin/spyre env");
}

}  // namespace

svp::Expected<std::vector<ShellVariable>> torch_variables(const std::filesystem::path& program, bool build,
                                                          const ReadVariable& read) {
  for (const FolderPlace& place : kFolderPlaces) {
    const auto compiler = (program / place.compiler / "").lexically_normal().parent_path();
    const auto library = (program / place.library).lexically_normal();
    if (!holds(compiler, "dxp_standalone") || !holds(library, "libflex.so")) continue;
    if ((compiler.string() + library.string()).contains(':')) {
      return std::unexpected(
          incomplete("a list of folders cannot hold " + compiler.string() + ", which has a colon in it"));
    }
    std::vector<ShellVariable> variables = {
        {"PATH", in_front(compiler.string(), read("PATH"))},
        {"LD_LIBRARY_PATH", in_front(library.string(), read("LD_LIBRARY_PATH"))},
    };
    if (!build) return variables;
    const auto headers = (program / (place.headers == nullptr ? "" : place.headers)).lexically_normal();
    if (!holds(headers, "flex/flex.hpp")) {
      return std::unexpected(
          incomplete("the headers of libflex.so are not beside it, as a build of torch-spyre needs them"));
    }
    variables.push_back({"CMAKE_INCLUDE_PATH", in_front(headers.string(), read("CMAKE_INCLUDE_PATH"))});
    variables.push_back({"CMAKE_LIBRARY_PATH", in_front(library.string(), read("CMAKE_LIBRARY_PATH"))});
    variables.insert(variables.end(), {{"NEW_SYSTEM_SETUP", "1"}, {"USE_SPYRE_CCL", "0"}, {"USE_SPYRE_PROFILER", "0"}});
    return variables;
  }
  return std::unexpected(incomplete("no dxp_standalone and libflex.so belong to " + program.string() + "/spyre"));
}

std::string as_shell_command(const ShellVariable& variable) {
  std::string quoted = "'";
  for (const char c : variable.value) {
    if (c == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += c;
    }
  }
  return "export " + variable.name + "=" + quoted + "'";
}

}  // namespace cli
