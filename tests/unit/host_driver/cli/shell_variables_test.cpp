// SPDX-License-Identifier: Apache-2.0
// spyre env: which variables it prints for which tree, and that a shell reads them as they are meant.
#include "host_driver/cli/shell_variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "tests/unit/qemu/test_support.hpp"

namespace cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void put_file(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

// <root>/bin and what belongs to it, as `cmake --install` lays it out.
std::filesystem::path installed(const std::filesystem::path& root) {
  const auto flex = root / "lib/spyre/flex-compat" / SPYRE_FLEX_VERSION;
  put_file(root / "bin/dxp_standalone");
  put_file(flex / "lib/libflex.so");
  put_file(flex / "include/flex/flex.hpp");
  return root / "bin";
}

ReadVariable environment(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

class ShellVariables : public testing::Test {
 protected:
  // Spelled as the command prints it: a system's folder for temporary files may have a second slash in it.
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path().lexically_normal(); }

 private:
  qemu::test::TemporaryFolder folder_{};
};

TEST_F(ShellVariables, OfAnInstallationComeBeforeWhatIsSet) {
  const auto bin = installed(folder());
  const std::string flex = folder().string() + "/lib/spyre/flex-compat/" SPYRE_FLEX_VERSION;
  const auto variables = torch_variables(bin, false, environment({{"PATH", "/usr/bin:/bin"}}));
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_THAT(*variables, ElementsAre(ShellVariable{"PATH", bin.string() + ":/usr/bin:/bin"},
                                      ShellVariable{"LD_LIBRARY_PATH", flex + "/lib"}));
}

TEST_F(ShellVariables, OfABuildNameHeadersAndLibrary) {
  const auto bin = installed(folder());
  const std::string flex = folder().string() + "/lib/spyre/flex-compat/" SPYRE_FLEX_VERSION;
  const auto variables = torch_variables(bin, true, environment({{"CMAKE_INCLUDE_PATH", "/else"}}));
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_THAT(*variables,
              ElementsAre(ShellVariable{"PATH", bin.string()}, ShellVariable{"LD_LIBRARY_PATH", flex + "/lib"},
                          ShellVariable{"CMAKE_INCLUDE_PATH", flex + "/include:/else"},
                          ShellVariable{"CMAKE_LIBRARY_PATH", flex + "/lib"}, ShellVariable{"NEW_SYSTEM_SETUP", "1"},
                          ShellVariable{"USE_SPYRE_CCL", "0"}, ShellVariable{"USE_SPYRE_PROFILER", "0"}));
}

TEST_F(ShellVariables, AreTheSameWhenTheyAreSetAlready) {
  const auto bin = installed(folder());
  const auto once = torch_variables(bin, true, environment({{"PATH", "/usr/bin:" + bin.string() + "::/bin"}}));
  ASSERT_TRUE(once);
  EXPECT_EQ(once->front().value, bin.string() + ":/usr/bin:/bin");
  std::map<std::string, std::string, std::less<>> set;
  for (const ShellVariable& variable : *once) set[variable.name] = variable.value;
  const auto again = torch_variables(bin, true, environment(set));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *once);
}

TEST_F(ShellVariables, OfABuildTreeHaveNoHeaders) {
  const auto cli = folder() / "host_driver/cli";
  put_file(folder() / "host_driver/compiler/dxp_standalone");
  put_file(folder() / "host_driver/compat/lib/libflex.so");
  const auto variables = torch_variables(cli, false, environment({}));
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_THAT(*variables, ElementsAre(ShellVariable{"PATH", folder().string() + "/host_driver/compiler"},
                                      ShellVariable{"LD_LIBRARY_PATH", folder().string() + "/host_driver/compat/lib"}));
  const auto refused = torch_variables(cli, true, environment({}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("headers"));
  EXPECT_THAT(refused.error().next_step, HasSubstr("cmake --install"));
}

TEST_F(ShellVariables, AreRefusedWhenSomethingIsMissingOrCannotStandInAList) {
  const auto bin = installed(folder());
  std::filesystem::remove(bin / "dxp_standalone");
  const auto missing = torch_variables(bin, false, environment({}));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("dxp_standalone"));
  const auto colon = torch_variables(installed(folder() / "a:b"), false, environment({}));
  ASSERT_FALSE(colon);
  EXPECT_THAT(colon.error().message, HasSubstr("colon"));
}

TEST(ShellCommand, IsReadByAShellAsItWasWritten) {
  const std::string value = R"(/it's "here"/$HOME `x` \ *)";
  const std::string command = as_shell_command({"SPYRE_TEST", value}) + "\nprintf '%s' \"$SPYRE_TEST\"";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(256, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(said, value);
}

}  // namespace
}  // namespace cli
