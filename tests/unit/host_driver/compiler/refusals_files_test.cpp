// SPDX-License-Identifier: Apache-2.0
// Bad directories of a bundle: files that are missing, truncated, too large, no files, or links out of the directory.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "host_driver/compiler/compile.hpp"
#include "tests/unit/host_driver/compiler/refusals.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace refusals {

namespace {

namespace fs = std::filesystem;
using namespace svp::compiler;

constexpr const char* kFiles = "name a directory that has bundle.mlir and all files that it names, none of them a link";

test::BundleBuilder add() {
  test::BundleBuilder builder(3);
  builder.add({.op = "add",
               .extents = {{"mb", 64}, {"out", 128}},
               .tensors = {tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}});
  return builder;
}

// The directory of a good bundle, changed.
Row directory_row(const std::string& name, const std::function<void(const fs::path&)>& change, const std::string& place,
                  const std::string& what, const std::string& next = kFiles) {
  return {.name = name,
          .compile =
              [=] {
                const qemu::test::TemporaryFolder folder;
                const test::BundleBuilder builder = add();
                (void)folder.file("bundle.mlir", builder.text());
                (void)folder.file("sdsc_0.json", builder.read("sdsc_0.json"));
                change(folder.path());
                (void)compile(read_bundle(folder.path()));
              },
          .place = place,
          .what = what,
          .next = next};
}

Row symbol_row(const std::string& old, const std::string& replacement, unsigned line, const std::string& what) {
  return {.name = old,
          .compile =
              [=] {
                const test::BundleBuilder builder = add();
                compile_bundle(builder, replaced(builder.text(), old, replacement));
              },
          .place = "bundle.mlir:" + std::to_string(line),
          .what = what};
}

// "symdim" of the vectors in short: an SDSC names the dimension, or none does.
Row dynamic_row(bool named) {
  test::BundleBuilder builder = add();
  if (named) edit(builder.file(0), {{"dimToSymbolMapping_", {{"mb", {-1}}}}});
  const std::string text = replaced(builder.text(), "%arg_2_base_addr: !sdscbundle.input_arg<index>",
                                    "%arg_2_base_addr: !sdscbundle.input_arg<index>, %sym_0_1_base: "
                                    "!sdscbundle.input_arg<index, granularity=64, max_value=512>");
  return {.name = named ? "a dynamic dimension" : "a dynamic size of no dimension",
          .compile = [=] { compile_bundle(builder, text); },
          .place = named ? "sdsc_0.json: 0_add.dscs_[0].add.dimToSymbolMapping_" : "bundle.mlir:2",
          .what = named ? "the size of dimension mb is one that only the launch knows: dynamic sizes are not compiled"
                        : "parameter %sym_0_1_base (granularity=64, max_value=512) is a size that only the launch "
                          "knows: dynamic sizes are not compiled",
          .next = kStatic};
}

}  // namespace

std::vector<Row> file_rows() {
  const auto in_place_of_sdsc = [](const std::function<void(const fs::path&)>& make) {
    return [=](const fs::path& folder) {
      fs::remove(folder / "sdsc_0.json");
      make(folder / "sdsc_0.json");
    };
  };
  const std::string named = "bundle.mlir:8";
  return {directory_row(
              "no bundle.mlir", [](const fs::path& p) { fs::remove(p / "bundle.mlir"); }, "bundle.mlir",
              "there is no file bundle.mlir in "),
          directory_row("no SDSC", in_place_of_sdsc([](const fs::path&) {}), named, "there is no file sdsc_0.json in "),
          directory_row("a folder", in_place_of_sdsc([](const fs::path& p) { fs::create_directory(p); }), named,
                        "sdsc_0.json is no regular file"),
          directory_row("a pipe", in_place_of_sdsc([](const fs::path& p) { ASSERT_EQ(::mkfifo(p.c_str(), 0600), 0); }),
                        named, "sdsc_0.json is no regular file"),
          directory_row("a link out of the directory",
                        in_place_of_sdsc([](const fs::path& p) { fs::create_symlink("/etc/hostname", p); }), named,
                        "sdsc_0.json leads through a symbolic link"),
          directory_row(
              "5 MiB", [](const fs::path& p) { fs::resize_file(p / "sdsc_0.json", 5u << 20); }, named,
              "sdsc_0.json has 5242880 bytes, more than 4194304"),
          directory_row(
              "a truncated SDSC", [](const fs::path& p) { fs::resize_file(p / "sdsc_0.json", 1000); }, "sdsc_0.json",
              "is not JSON", kAgain),
          directory_row(
              "a truncated text",
              [](const fs::path& p) { fs::resize_file(p / "bundle.mlir", fs::file_size(p / "bundle.mlir") - 2); },
              "bundle.mlir:11", "'}' is expected, and the end of the file stands there", kAgain),
          {.name = "an archive without the SDSC",
           .compile = [] { (void)read_bundle(BundleFiles{{"bundle.mlir", add().text()}}); },
           .place = named,
           .what = "sdsc_0.json: is not among the files of the bundle",
           .next = kFiles},
          symbol_row("[-1, -2, -3]", "[-1, -2, -2]", 8, "symbol id -2 stands twice"),
          symbol_row("[-1, -2, -3]", "[-1, -2, -9]", 8, "symbol id -3 of Tensor2 (sdsc_0.json) is given no value"),
          dynamic_row(true),
          dynamic_row(false)};
}

TEST(Refusals, EachBadFileIsNamedByTheLineThatNamesIt) { expect_refused(file_rows()); }

}  // namespace refusals
