// SPDX-License-Identifier: Apache-2.0
// The two command lines, and the directory that they write.
#include "host_driver/compiler/command_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "host_driver/base/error.hpp"
#include "host_driver/compiler/compile.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"
#include "tests/support/bundle_builder.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace {

using namespace svp::compiler;
namespace fs = std::filesystem;

std::string refusal_of(const std::string& name, const std::vector<std::string>& arguments) {
  try {
    (void)parse_call(name, arguments);
  } catch (const svp::InvalidArgument& refused) {
    return refused.info().message;
  }
  return "accepted";
}

TEST(CompilerCommands, TheCallsOfTorchSpyreAreUnderstood) {
  for (const auto& arguments : {std::vector<std::string>{"-d", "/b"}, {"--bundle", "-d", "/b"}}) {
    const CompilerCall call = parse_call("/usr/bin/dxp_standalone", arguments);
    EXPECT_EQ(call.bundle, "/b");
    EXPECT_EQ(call.target, "/b");
  }
  for (const char* emit : {"-kEmitSpyreCode", "--kEmitSpyreCode"}) {
    const CompilerCall call = parse_call("dbo-opt", {"--device=x.mlir", "--export-dir=/out", emit, "/b/bundle.mlir"});
    EXPECT_EQ(call.bundle, "/b");
    EXPECT_EQ(call.target, "/out");
  }
  EXPECT_EQ(parse_call("dbo-opt", {"--export-dir=.", "-kEmitSpyreCode", "bundle.mlir"}).bundle, ".");
}

TEST(CompilerCommands, EachPassHasASwitch) {
  EXPECT_TRUE(parse_call("dxp_standalone", {"-d", "/b"}).passes.forward_copies);
  EXPECT_FALSE(parse_call("dxp_standalone", {"--disable-pass=forward-copies", "-d", "/b"}).passes.forward_copies);
  EXPECT_FALSE(
      parse_call("dbo-opt", {"--export-dir=o", "-kEmitSpyreCode", "--disable-pass=forward-copies", "b/bundle.mlir"})
          .passes.forward_copies);
  EXPECT_EQ(refusal_of("dxp_standalone", {"--disable-pass=fold", "-d", "/b"}), "--disable-pass=fold: names no pass");
}

TEST(CompilerCommands, OtherCallsAreRefusedByArgument) {
  EXPECT_EQ(refusal_of("dxp_standalone", {}), "-d: is missing");
  EXPECT_EQ(refusal_of("dxp_standalone", {"-d"}), "-d: names no directory");
  EXPECT_EQ(refusal_of("dxp_standalone", {"-d", "a", "-d", "b"}), "-d: stands twice");
  EXPECT_EQ(refusal_of("dxp_standalone", {"-x"}), "-x: is not known");
  EXPECT_EQ(refusal_of("dbo-opt", {"--from-ktir", "--kEmitSpyreCode", "a.ktir"}),
            "--from-ktir: KTIR is not compiled, only bundles of SDSCs are");
  EXPECT_EQ(refusal_of("dbo-opt", {"--export-dir=o", "b/bundle.mlir"}),
            "-kEmitSpyreCode: is missing, and nothing else can be made");
  EXPECT_EQ(refusal_of("dbo-opt", {"-kEmitSpyreCode", "b/bundle.mlir"}), "--export-dir=DIR: is missing");
  EXPECT_EQ(refusal_of("dbo-opt", {"--export-dir=o", "-kEmitSpyreCode"}), "DIR/bundle.mlir: is missing");
  EXPECT_EQ(refusal_of("dbo-opt", {"--export-dir=o", "-kEmitSpyreCode", "b.txt"}), "b.txt: is not the one bundle.mlir");
}

class CompiledDirectory : public testing::Test {
 protected:
  CompiledDirectory() {
    const std::vector<std::string> order{"mb", "out"};
    builder_.add({.op = "add",
                  .extents = {{"mb", 64}, {"out", 128}},
                  .tensors = {{.order = order, .stick = "out", .base = "arg_0"},
                              {.order = order, .stick = "out", .base = "arg_1"},
                              {.order = order, .stick = "out", .base = "arg_2"}}});
    write("bundle.mlir", builder_.text());
    write("sdsc_0.json", builder_.read("sdsc_0.json"));
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path() / name) << text; }
  std::string content(const fs::path& file) const {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  fs::path path() const { return folder_.path(); }
  int compile() const { return run_compiler("dxp_standalone", {"-d", path().string()}); }
  // What compiling says on stderr.
  std::string said(int code) const {
    testing::internal::CaptureStderr();
    EXPECT_EQ(compile(), code);
    return testing::internal::GetCapturedStderr();
  }

  test::BundleBuilder builder_{3};
  const qemu::test::TemporaryFolder folder_;
};

TEST_F(CompiledDirectory, HoldsAPlanThatIsTheSameEachTime) {
  EXPECT_EQ(said(kCompiled), "");
  const fs::path plan = path() / "spyreCodeDir" / "spyrecode.json";
  const std::string first = content(plan);
  const auto code = svp::spyrecode::parse(first);
  ASSERT_EQ(code.init.size(), 1u);
  EXPECT_EQ(fs::file_size(path() / "spyreCodeDir" / code.init[0].file), code.init[0].size);
  EXPECT_FALSE(first.contains(path().string())) << "no absolute path";
  EXPECT_EQ(compile(), kCompiled);
  EXPECT_EQ(content(plan), first);
  EXPECT_EQ(std::distance(fs::directory_iterator(path() / "spyreCodeDir"), fs::directory_iterator()), 2);
}

// One that depends on lengths brings its bundle.
TEST_F(CompiledDirectory, BundlesThatDifferOnlyInDebugHandlesGiveEqualBinaries) {
  test::BundleBuilder gather(3);
  gather.add({.op = "identity",
              .extents = {{"mb", 32}, {"out", 128}},
              .tensors = {{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true},
                          {.order = {"out", "mb"}, .stick = "out", .base = "arg_1", .indirect = true},
                          {.order = {"mb", "out"}, .stick = "out", .base = "arg_2"}}});
  write("bundle.mlir", gather.text());
  std::vector<std::string> plans, binaries;
  for (const char* source : {"a.py", "b/c.py"}) {
    gather.file(0)["0_identity"]["debug_handle_"] = {{"source", {{"file", source}, {"start_line", 7}}}};
    write("sdsc_0.json", gather.read("sdsc_0.json"));
    EXPECT_EQ(compile(), kCompiled);
    plans.push_back(content(path() / "spyreCodeDir" / "spyrecode.json"));
    binaries.push_back(content(path() / "spyreCodeDir" / svp::spyrecode::parse(plans.back()).init[0].file));
  }
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(binaries[0], binaries[1]);
  const auto read = svp::spyrecode::read_program_binary(std::as_bytes(std::span(binaries[0])), "the binary");
  const BundleFiles files = svp::spyrecode::read_archive(read.archive, "the archive");
  EXPECT_TRUE(std::ranges::equal(svp::compiler::compile(read_bundle(files)).bytes(), read.program));
  EXPECT_FALSE(files.at("sdsc_0.json").contains("a.py"));
}

TEST_F(CompiledDirectory, IsNotWrittenWhenTheBundleIsRefused) {
  write("sdsc_0.json", "{");
  EXPECT_TRUE(said(kBundleRefused).starts_with("dxp_standalone: sdsc_0.json"));
  EXPECT_FALSE(fs::exists(path() / "spyreCodeDir"));
  fs::remove(path() / "sdsc_0.json");
  EXPECT_TRUE(said(kBundleRefused).contains("sdsc_0.json"));
  fs::create_symlink("/etc/hostname", path() / "sdsc_0.json");
  EXPECT_TRUE(said(kBundleRefused).contains("sdsc_0.json")) << "no link leads out of the directory";
}

TEST_F(CompiledDirectory, BadCallsAndUnwritablePlacesHaveCodesOfTheirOwn) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_compiler("dxp_standalone", {"--help"}), kBadUsage);
  EXPECT_TRUE(testing::internal::GetCapturedStderr().contains("next: dxp_standalone"));
  write("spyreCodeDir", "a file");
  EXPECT_TRUE(said(kDefect).contains("spyreCodeDir"));
}

}  // namespace
