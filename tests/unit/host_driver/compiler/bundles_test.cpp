// SPDX-License-Identifier: Apache-2.0
// Bundles compiled and executed on the golden model, against the reference interpreter: every byte of every argument,
// those that nothing may write among them. The vectors of torch-spyre, and random bundles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "tests/support/bundle_arguments.hpp"
#include "tests/support/bundle_reference.hpp"
#include "tests/support/random_bundles.hpp"

namespace {

namespace fs = std::filesystem;
using namespace svp::compiler;

constexpr std::uint64_t kMostPoints = 300'000;  // of what the reference computes

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
std::uint64_t first_seed() { return number_in("SPYRE_SEED", 0); }
std::uint64_t random_bundles() { return number_in("SPYRE_BUNDLES", 200); }

// Points of all iteration spaces; loops are not counted.
std::uint64_t points_of(const Bundle& bundle) {
  std::uint64_t sum = 0;
  for (const Sdsc& sdsc : bundle.sdsc) {
    std::uint64_t points = 1;
    for (const Dimension& dimension : sdsc.dimensions) points *= dimension.extent;
    sum += points;
  }
  return sum;
}

void expect_reference(const Bundle& bundle, const svp::DeviceProgram& program, test::Numbers numbers) {
  const auto before = test::arguments_of(bundle, program, 1, numbers);
  const auto expected = test::run_reference(bundle, before);
  auto got = before;
  std::vector<std::span<std::byte>> memory(got.begin(), got.end());
  svp::program::golden::run(program.bytes(), memory);
  EXPECT_EQ(test::first_difference(expected, got), "") << (numbers == test::Numbers::All ? "with infinities" : "");
}
void expect_reference(const Bundle& bundle, const svp::DeviceProgram& program) {
  for (const auto numbers : {test::Numbers::Finite, test::Numbers::All}) expect_reference(bundle, program, numbers);
}

TEST(Bundles, TheVectorsOfTorchSpyreAreWhatTheReferenceSays) {
  std::size_t compiled = 0, compared = 0;
  for (const auto& entry : fs::directory_iterator(SPYRE_SDSC_VECTORS)) {
    const std::string name = entry.path().filename();
    SCOPED_TRACE(name);
    if (name == "symdim") {
      EXPECT_THROW((void)read_bundle(entry.path()), InvalidPlan);
      continue;
    }
    const Bundle bundle = read_bundle(entry.path());
    const svp::DeviceProgram program = compile(bundle);
    ++compiled;
    if (points_of(bundle) > kMostPoints) continue;
    expect_reference(bundle, program);
    ++compared;
  }
  EXPECT_EQ(compiled, 109u);
  EXPECT_EQ(compared, 86u);
}

TEST(Bundles, RandomOnesAreWhatTheReferenceSays) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + random_bundles(); ++seed) {
    SCOPED_TRACE(seed);
    const test::BundleBuilder builder = test::random_bundle(seed);
    const Bundle bundle = read_bundle([&](const std::string& name) { return builder.read(name); });
    expect_reference(bundle, compile(bundle), seed % 2 == 0 ? test::Numbers::All : test::Numbers::Finite);
  }
}

// What the first one leaves in the scratchpads the second one reads there.
TEST(Bundles, PairsThatShareTheScratchpadsAreWhatTheReferenceSays) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + random_bundles() / 2; ++seed) {
    SCOPED_TRACE(seed);
    const test::BundlePair pair = test::random_pair(seed);
    test::ReferenceScratchpads reference;
    svp::program::golden::Scratchpads golden;
    for (const test::BundleBuilder* builder : {&pair.first, &pair.second}) {
      const Bundle bundle = read_bundle([&](const std::string& name) { return builder->read(name); });
      const svp::DeviceProgram program = compile(bundle);
      const auto before = test::arguments_of(bundle, program, seed);
      auto got = before;
      const std::vector<std::span<std::byte>> memory(got.begin(), got.end());
      svp::program::golden::run(program.bytes(), memory, svp::program::golden::Order::Ascending, &golden);
      EXPECT_EQ(test::first_difference(test::run_reference(bundle, before, reference), got), "");
    }
  }
}

// ---- passes ---------------------------------------------------------------------------------------------------------

// What a program leaves in its arguments and in the scratchpads, which hold something at first.
struct Remains {
  std::vector<std::vector<std::byte>> arguments;
  std::vector<std::vector<std::byte>> scratchpads;
  friend bool operator==(const Remains&, const Remains&) = default;
};

Remains remains_of(const svp::DeviceProgram& program, std::vector<std::vector<std::byte>> arguments) {
  svp::program::golden::Scratchpads scratchpads;
  const auto& header = program.header();
  for (std::uint32_t slice = 0; slice < header.slices; ++slice) {
    std::ranges::generate(scratchpads.of(slice, header.scratchpad_bytes),
                          [n = slice]() mutable { return static_cast<std::byte>(n++ * 37 % 120); });
  }
  const std::vector<std::span<std::byte>> memory(arguments.begin(), arguments.end());
  svp::program::golden::run(program.bytes(), memory, svp::program::golden::Order::Ascending, &scratchpads);
  Remains remains{.arguments = std::move(arguments), .scratchpads = {}};
  for (std::uint32_t slice = 0; slice < header.slices; ++slice) {
    const auto bytes = scratchpads.of(slice, header.scratchpad_bytes);
    remains.scratchpads.emplace_back(bytes.begin(), bytes.end());
  }
  return remains;
}

// How many operations the passes have removed.
std::uint32_t expect_same_bytes(const Bundle& bundle, std::uint64_t seed) {
  const svp::DeviceProgram without = compile(bundle, {.lengths = {}, .passes = {.forward_copies = false}});
  const svp::DeviceProgram with = compile(bundle);
  const std::uint32_t removed = without.header().operation_count - with.header().operation_count;
  if (std::ranges::equal(without.bytes(), with.bytes())) return removed;
  const auto numbers = seed % 2 == 0 ? test::Numbers::All : test::Numbers::Finite;
  const auto before = test::arguments_of(bundle, without, seed, numbers);
  EXPECT_TRUE(remains_of(without, before) == remains_of(with, before));
  return removed;
}

TEST(Passes, ChangeNoByteOfTheVectors) {
  for (const auto& entry : fs::directory_iterator(SPYRE_SDSC_VECTORS)) {
    SCOPED_TRACE(entry.path().filename());
    if (entry.path().filename() == "symdim") continue;
    const Bundle bundle = read_bundle(entry.path());
    if (points_of(bundle) <= kMostPoints) expect_same_bytes(bundle, 1);
  }
}

TEST(Passes, ChangeNoByteOfRandomBundles) {
  std::uint64_t removed = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + random_bundles(); ++seed) {
    SCOPED_TRACE(seed);
    const test::BundleBuilder builder = test::random_bundle(seed);
    removed += expect_same_bytes(read_bundle([&](const std::string& name) { return builder.read(name); }), seed);
  }
  EXPECT_GT(removed, random_bundles() / 20) << "few of them have a copy that goes";
}

}  // namespace
