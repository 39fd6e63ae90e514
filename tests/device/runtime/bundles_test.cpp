// SPDX-License-Identifier: Apache-2.0
// Bundles of torch-spyre, compiled and executed by the engine on the card: every byte of their arguments against the
// reference interpreter.
#include <filesystem>
#include <fstream>

#include "host_driver/compiler/compile.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/bundle_arguments.hpp"
#include "tests/support/bundle_reference.hpp"
#include "tests/support/random_bundles.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using compiler::Bundle;

constexpr std::uint64_t kRandomBundles = 60;

class BundlesOnTheCard : public test::ProgramCard {
 protected:
  // Runs the job on memory with the arguments' contents, and compares what is there afterwards.
  void expect_reference(const Bundle& bundle, const DeviceProgram& program, const Job& job, std::uint64_t seed,
                        std::uint64_t cores, const std::vector<std::uint64_t>& lengths = {}) {
    ::test::ReferenceScratchpads scratchpads;
    expect_reference(bundle, program, job, seed, cores, scratchpads, lengths);
  }
  void expect_reference(const Bundle& bundle, const DeviceProgram& program, const Job& job, std::uint64_t seed,
                        std::uint64_t cores, ::test::ReferenceScratchpads& scratchpads,
                        const std::vector<std::uint64_t>& lengths = {}) {
    const auto before =
        ::test::arguments_of(bundle, program, seed, seed % 2 == 0 ? ::test::Numbers::All : ::test::Numbers::Finite);
    std::vector<AllocationIndex> memory;
    std::vector<Argument> arguments;
    for (const Bytes& bytes : before) {
      memory.push_back(allocate(bytes.size()));
      stream().Launch(Job::to_device(bytes.data(), memory.back(), bytes.size()), {});
      arguments.push_back(Argument::raw(memory.back()));
    }
    stream().Launch(job, arguments, {.core_mask = cores});
    std::vector<Bytes> got;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      got.push_back(content_of(memory[i], before[i].size()));
      free(memory[i]);
    }
    EXPECT_EQ(::test::first_difference(::test::run_reference(bundle, before, scratchpads, lengths), got), "");
  }
};

TEST_F(BundlesOnTheCard, RandomOnesAreWhatTheReferenceSays) {
  const std::uint64_t all = context().runtime().launch_site(0).all_cores;
  for (std::uint64_t seed = 1000; seed < 1000 + kRandomBundles; ++seed) {
    SCOPED_TRACE(seed);
    const ::test::BundleBuilder builder = ::test::random_bundle(seed);
    const Bundle bundle = compiler::read_bundle([&](const std::string& name) { return builder.read(name); });
    const auto program = std::make_shared<const DeviceProgram>(compiler::compile(bundle));
    expect_reference(bundle, *program, load(program), seed, seed % 2 == 0 ? 1 : all);
  }
}

// One bundle leaves values in the scratchpads only, the next one reads them there.
TEST_F(BundlesOnTheCard, PairsThatShareTheScratchpadsAreWhatTheReferenceSays) {
  const std::uint64_t all = context().runtime().launch_site(0).all_cores;
  for (std::uint64_t seed = 2000; seed < 2000 + kRandomBundles / 2; ++seed) {
    SCOPED_TRACE(seed);
    const ::test::BundlePair pair = ::test::random_pair(seed);
    ::test::ReferenceScratchpads scratchpads;
    for (const ::test::BundleBuilder* builder : {&pair.first, &pair.second}) {
      const Bundle bundle = compiler::read_bundle([&](const std::string& name) { return builder->read(name); });
      const auto program = std::make_shared<const DeviceProgram>(compiler::compile(bundle));
      expect_reference(bundle, *program, load(program), seed, seed % 2 == 0 ? 1 : all, scratchpads);
    }
  }
}

// Tables of several lengths, and the index in them from the first row to the last.
TEST_F(BundlesOnTheCard, GathersAndScattersReachTheRowsThatTheLengthsGive) {
  using ::test::BundleTensor;
  for (const bool scatters : {false, true}) {
    const BundleTensor index{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true};
    const BundleTensor table{.order = {"out", "mb"}, .stick = "out", .base = "arg_1", .indirect = true};
    const BundleTensor matrix{.order = {"mb", "out"}, .stick = "out", .base = "arg_2"};
    ::test::BundleBuilder builder(3);
    builder.add({.op = "identity",
                 .extents = {{"mb", 32}, {"out", 128}},
                 .tensors = {index, scatters ? matrix : table, scatters ? table : matrix}});
    const Bundle bundle = compiler::read_bundle([&](const std::string& name) { return builder.read(name); });
    for (const std::uint64_t rows : {32U, 41U, 3000U}) {
      SCOPED_TRACE(rows);
      const std::vector<std::uint64_t> lengths{128, rows * 256, 8192};
      const auto program = std::make_shared<const DeviceProgram>(compiler::compile(bundle, {.lengths = lengths}));
      expect_reference(bundle, *program, load(program), rows, 0, lengths);
    }
  }
}

// The gap of one bundle, with each meaning that a length can give it.
TEST_F(BundlesOnTheCard, ARestickifyPadsAsTheLengthSays) {
  ::test::BundleBuilder builder(2);
  builder.add({.op = "ReStickifyOpHBM",
               .extents = {{"mb", 128}, {"out", 192}},
               .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .gap = {{"mb", 28}}},
                           {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"}}});
  const Bundle bundle = compiler::read_bundle([&](const std::string& name) { return builder.read(name); });
  for (const std::uint64_t elements : {100U, 128U, 140U, 156U}) {
    SCOPED_TRACE(elements);
    const std::vector<std::uint64_t> lengths{elements * 384, std::uint64_t{192} * 256};
    const auto program = std::make_shared<const DeviceProgram>(compiler::compile(bundle, {.lengths = lengths}));
    expect_reference(bundle, *program, load(program), elements, 0, lengths);
  }
}

// What dxp_standalone writes is loaded and launched as torch-spyre's runtime does.
TEST_F(BundlesOnTheCard, ADirectoryIsCompiledLoadedAndLaunched) {
  const qemu::test::TemporaryFolder folder;
  const ::test::BundleBuilder builder = ::test::random_bundle(5);
  std::ofstream(folder.path() / "bundle.mlir") << builder.text();
  for (const auto& [name, json] : builder.files()) std::ofstream(folder.path() / name) << json;
  compiler::compile_directory(folder.path(), folder.path());
  ExecutionPlan plan = ExecutionPlan::from_directory(folder.path() / compiler::kSpyreCodeFolder);
  context().load(plan);
  ASSERT_EQ(plan.jobs().size(), 1u);
  const Bundle bundle = compiler::read_bundle(folder.path());
  expect_reference(bundle, *plan.jobs()[0].device_program(), plan.jobs()[0], 5, 0);
}

}  // namespace
}  // namespace svp
