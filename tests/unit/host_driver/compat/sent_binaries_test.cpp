// SPDX-License-Identifier: Apache-2.0
// Binaries in bytes for program memory: what libflex reads and refuses when they are sent.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/program_memory.hpp"
#include "host_driver/compiler/compile.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "tests/support/bundle_builder.hpp"

namespace flex::detail {
namespace {

using svp::compiler::BundleFiles;
using Bytes = std::vector<std::byte>;

// A gather; its program depends on the length of the table.
BundleFiles gather() {
  test::BundleBuilder builder(3);
  builder.add({.op = "identity",
               .extents = {{"mb", 32}, {"out", 128}},
               .tensors = {{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true},
                           {.order = {"out", "mb"}, .stick = "out", .base = "arg_1", .indirect = true},
                           {.order = {"mb", "out"}, .stick = "out", .base = "arg_2"}}});
  BundleFiles files{{"bundle.mlir", builder.text()}};
  for (const auto& [name, json] : builder.files()) files.emplace(name, json.dump());
  return files;
}

Bytes binary_with(const BundleFiles& files) {
  return svp::compiler::spyre_code_of(svp::compiler::compile(svp::compiler::read_bundle(gather())), &files)
      .binaries[0]
      .bytes;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string refusal_of(const Bytes& bytes) {
  try {
    (void)binaries_in(bytes, "the file");
  } catch (const svp::InvalidPlan& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.field() + " | " + refused.info().message;
  }
  return "accepted";
}

TEST(SentBinaries, OneStandsBehindTheOther) {
  const Bytes first = binary_with(gather()),
              second = svp::compiler::spyre_code_of(svp::compiler::compile(svp::compiler::read_bundle(gather())))
                           .binaries[0]
                           .bytes;
  const auto found = binaries_in(joined({first, second, Bytes(300, std::byte{1})}), "the file");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].offset, 0u);
  EXPECT_EQ(found[0].bytes, first.size());
  EXPECT_NE(found[0].late, nullptr);
  EXPECT_EQ(found[1].offset, first.size());
  EXPECT_EQ(found[1].bytes, second.size());
  EXPECT_EQ(found[1].late, nullptr);
  EXPECT_TRUE(binaries_in({}, "the file").empty());
  EXPECT_TRUE(binaries_in(Bytes(5, std::byte{'S'}), "the file").empty());
  EXPECT_TRUE(binaries_in(Bytes(512, std::byte{1}), "the file").empty());
}

TEST(SentBinaries, ADamagedOneIsRefusedByPlace) {
  const Bytes good = binary_with(gather());
  Bytes damaged = good;
  damaged[200] ^= std::byte{1};
  EXPECT_EQ(refusal_of(damaged), "the file | the file: has another checksum than it says");
  const std::string behind = "the file from byte " + std::to_string(good.size());
  EXPECT_EQ(refusal_of(joined({good, damaged})), behind + " | " + behind + ": has another checksum than it says");
  Bytes cut = good;
  cut.resize(good.size() - 128);
  EXPECT_THAT(refusal_of(cut), testing::HasSubstr("is cut off"));
}

// With a right checksum of the binary.
TEST(SentBinaries, AProgramThatIsNoneIsRefused) {
  Bytes program(512);
  EXPECT_THAT(refusal_of(svp::spyrecode::write_program_binary({.program = program, .name = "none"})),
              testing::HasSubstr("device program none is refused: header: magic"));
}

TEST(SentBinaries, ABundleThatIsNoneIsRefused) {
  const auto with = [](const std::string& name, const std::string& content) {
    BundleFiles files = gather();
    files[name] = content;
    return refusal_of(binary_with(files));
  };
  EXPECT_EQ(refusal_of(binary_with({})), "bundle.mlir | bundle.mlir: is not among the files of the bundle");
  EXPECT_THAT(with("bundle.mlir", "nonsense"), testing::HasSubstr("bundle.mlir:1"));
  EXPECT_THAT(with("sdsc_0.json", "{"), testing::HasSubstr("sdsc_0.json"));
  EXPECT_EQ(with("bundle.mlir", test::BundleBuilder(2).text()),
            "the file | the file: the program takes 3 arguments, and the bundle that comes with it 2");
  Bytes archive(256, std::byte{7});
  const auto program = svp::compiler::compile(svp::compiler::read_bundle(gather()));
  EXPECT_EQ(refusal_of(svp::spyrecode::write_program_binary(
                {.program = program.bytes(), .name = "gather", .archive = archive})),
            "the file | the file: the archive of its bundle is none");
}

}  // namespace
}  // namespace flex::detail
