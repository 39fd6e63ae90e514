// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"

namespace cli {

namespace {

namespace fs = std::filesystem;

// Relative to the folder of this program: installed, and in the build folder.
constexpr std::array kProgramPlaces = {"../libexec/spyre/spyre-validation", "../../tests/validation/spyre-validation"};

fs::path find_validation() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string looked;
  for (const char* place : kProgramPlaces) {
    fs::path program = (folder / place).lexically_normal();
    if (::access(program.c_str(), X_OK) == 0) return program;
    looked += (looked.empty() ? "" : ", ") + program.string();
  }
  throw svp::Error(svp::refused_by_driver("spyre-validation",
                                          "campaign, soak and their replay need spyre-validation; looked at " + looked,
                                          "build it (scripts/build), or install it with the package"));
}

}  // namespace

void become_validation(const std::vector<std::string>& words) {
  const std::string program = find_validation();
  std::vector<const char*> arguments = {program.c_str()};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), const_cast<char* const*>(arguments.data()));
  throw svp::Error(svp::refused_by_driver(
      "spyre-validation", program + " could not be executed: " + std::strerror(errno), "check that the file is whole"));
}

}  // namespace cli
