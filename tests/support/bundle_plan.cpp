// SPDX-License-Identifier: Apache-2.0
// bundle_plan DIRECTORY — compiles bundles as dxp_standalone does, into folders of DIRECTORY, for tests that see the
// library only. Programs of gather, scatter, narrow and middle depend on the lengths of their arguments.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "tests/support/bundle_builder.hpp"

namespace {

using test::BundleBuilder;
using test::BundleTensor;

BundleTensor matrix(const std::string& base) { return {.order = {"mb", "out"}, .stick = "out", .base = base}; }
BundleTensor index(const std::string& base) {
  return {.order = {"mb"}, .stick = "mb", .base = base, .format = "SENUINT32", .index = true};
}
// Rows of 256 bytes.
BundleTensor table(const std::string& base) {
  return {.order = {"out", "mb"}, .stick = "out", .base = base, .indirect = true};
}

BundleTensor scratchpad() { return {.order = {"mb", "out"}, .stick = "out", .offset = 4096}; }

void write(const std::filesystem::path& folder, const std::vector<test::BundleOperation>& operations,
           unsigned arguments) {
  BundleBuilder builder(arguments);
  for (const test::BundleOperation& operation : operations) builder.add(operation);
  std::vector<svp::spyrecode::NamedBytes> files;
  std::vector<std::string> texts;
  texts.reserve(builder.files().size() + 1);
  const auto add = [&](const std::string& name) {
    texts.push_back(builder.read(name));
    files.push_back({.name = name, .bytes = std::as_bytes(std::span(texts.back()))});
  };
  add("bundle.mlir");
  for (const auto& [name, json] : builder.files()) add(name);
  svp::spyrecode::write_files(folder, files);
  svp::compiler::compile_directory(folder, folder);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: bundle_plan DIRECTORY\n"), 2;
  const std::filesystem::path folder(arguments[1]);
  try {
    // 32 rows of [rows, 128] by index; the same the other way round.
    const std::vector<std::pair<std::string, std::uint32_t>> rows{{"mb", 32}, {"out", 128}};
    const test::BundleOperation gather{
        .op = "identity", .extents = rows, .tensors = {index("arg_0"), table("arg_1"), matrix("arg_2")}};
    write(folder / "gather", {gather}, 3);
    write(folder / "scatter",
          {{.op = "identity", .extents = rows, .tensors = {index("arg_0"), matrix("arg_1"), table("arg_2")}}}, 3);
    // [4, 16] of FP32 to DL16: torch-spyre pads the columns to 64, and the memory has one stick of 32 for each row.
    BundleTensor narrow = matrix("arg_0");
    narrow.format = "IEEE_FP32";
    write(folder / "narrow",
          {{.op = "fp32todl16", .extents = {{"mb", 4}, {"out", 64}}, .tensors = {narrow, matrix("arg_1")}}}, 2);
    const auto sum = [&](const BundleTensor& a, const BundleTensor& b, const BundleTensor& to) {
      return test::BundleOperation{.op = "add", .extents = rows, .tensors = {a, b, to}};
    };
    // The gather between two additions of what it does not reach.
    write(folder / "middle",
          {sum(matrix("arg_3"), matrix("arg_3"), matrix("arg_4")), gather,
           sum(matrix("arg_2"), matrix("arg_3"), matrix("arg_5"))},
          6);
    // Twice argument 0 into the scratchpad; and the scratchpad and argument 0 into argument 1.
    write(folder / "leave", {sum(matrix("arg_0"), matrix("arg_0"), scratchpad())}, 1);
    write(folder / "take", {sum(scratchpad(), matrix("arg_0"), matrix("arg_1"))}, 2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bundle_plan: %s\n", error.what());
    return 1;
  }
}
