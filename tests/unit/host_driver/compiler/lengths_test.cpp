// SPDX-License-Identifier: Apache-2.0
// Programs of bundles whose arguments have lengths: tables of gathers and scatters, gaps of restickifies, tensors that
// end before the last stick of the iteration space. On the golden model, against the reference interpreter.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "tests/support/bundle_arguments.hpp"
#include "tests/support/bundle_builder.hpp"
#include "tests/support/bundle_reference.hpp"
#include "tests/support/random_bundles.hpp"

namespace {

namespace fs = std::filesystem;
using namespace svp::compiler;
using Lengths = std::vector<std::uint64_t>;
using Bytes = std::vector<std::byte>;
using test::BundleBuilder;
using test::BundleTensor;

Bundle vector_of(const std::string& name) { return read_bundle(fs::path(SPYRE_SDSC_VECTORS) / name); }
Bundle read(const BundleBuilder& builder) {
  return read_bundle(ReadFile([&](const std::string& name) { return builder.read(name); }));
}

// Bytes that the program takes of each argument.
Lengths lengths_of(const svp::DeviceProgram& program) {
  Lengths lengths;
  for (const auto& argument : program.arguments()) lengths.push_back(argument.bytes);
  return lengths;
}

std::vector<Bytes> run(const svp::DeviceProgram& program, std::vector<Bytes> arguments) {
  std::vector<std::span<std::byte>> memory(arguments.begin(), arguments.end());
  svp::program::golden::run(program.bytes(), memory);
  return arguments;
}

void expect_reference(const Bundle& bundle, const Lengths& lengths) {
  const svp::DeviceProgram program = compile(bundle, {.lengths = lengths});
  const auto before = test::arguments_of(bundle, program, 1);
  EXPECT_EQ(test::first_difference(test::run_reference(bundle, before, lengths), run(program, before)), "");
}

std::string refusal_of(const Bundle& bundle, const Lengths& lengths) {
  try {
    (void)compile(bundle, {.lengths = lengths});
  } catch (const spyre::Error& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.info().message;
  }
  return "accepted";
}

// ---- tables ---------------------------------------------------------------------------------------------------------

struct Table {
  unsigned argument;
  std::uint64_t page;
};
Table table_of(const svp::DeviceProgram& program) {
  const auto operation = program.operation(0);
  const auto& table = operation.operand[operation.opcode == wire::program::Opcode::Gather ? 1 : 2];
  return {table.argument, operation.page};
}

TEST(Lengths, AGatherReachesEveryRowOfItsTable) {
  for (const char* name : {"r_gather", "r_gather1d", "r_gather2d", "r_gather3d", "r_gatherP1"}) {
    const Bundle bundle = vector_of(name);
    const svp::DeviceProgram unknown = compile(bundle);
    const auto [argument, page] = table_of(unknown);
    EXPECT_EQ(length_uses(bundle).at(argument), LengthUse::Each);
    for (const std::uint64_t rows : {1U, 2U, 7U, 500U}) {
      SCOPED_TRACE(std::string(name) + ", rows " + std::to_string(rows));
      Lengths lengths = lengths_of(unknown);
      lengths[argument] = rows * page;
      expect_reference(bundle, lengths);
      EXPECT_EQ(compile(bundle, {.lengths = lengths}).arguments()[argument].bytes, rows * page);
      lengths[argument] += 128;  // no whole row
      EXPECT_EQ(compile(bundle, {.lengths = lengths}).arguments()[argument].bytes, (rows * page + 128) / page * page);
    }
  }
}

TEST(Lengths, AScatterReachesEveryRowOfItsTable) {
  const Bundle bundle = vector_of("r_scatter1d");
  const auto [argument, page] = table_of(compile(bundle));
  for (const std::uint64_t rows : {96U, 97U, 300U}) {
    SCOPED_TRACE(rows);
    Lengths lengths = lengths_of(compile(bundle));
    lengths[argument] = rows * page;
    expect_reference(bundle, lengths);
  }
}

TEST(Lengths, ATableWithoutAWholeRowIsRefused) {
  const Bundle bundle = vector_of("r_gather1d");
  const auto [argument, page] = table_of(compile(bundle));
  Lengths lengths = lengths_of(compile(bundle));
  lengths[argument] = page - 128;
  EXPECT_TRUE(
      refusal_of(bundle, lengths)
          .ends_with("which has " + std::to_string(page - 128) + " bytes, and one row of it " + std::to_string(page)))
      << refusal_of(bundle, lengths);
  lengths[argument] = 0;  // not known
  EXPECT_EQ(compile(bundle, {.lengths = lengths}).arguments()[argument].bytes, page);
}

// ---- gaps of restickifies -------------------------------------------------------------------------------------------

struct Gap {
  unsigned tensor;
  std::uint32_t extent, gap;
  std::uint64_t others;  // bytes for each element of the dimension
};
std::vector<Gap> gaps_of(const Bundle& bundle) {
  const Sdsc& sdsc = bundle.sdsc.at(0);
  std::vector<Gap> gaps;
  for (unsigned t = 0; t < 2; ++t) {
    const SdscTensor &tensor = sdsc.tensors[t], &other = sdsc.tensors[1 - t];
    for (const std::uint8_t d : tensor.order) {
      if (tensor.gap[d] == 0 || tensor.stick_of(d) != nullptr || other.stick_of(d) == nullptr) continue;
      Gap gap{.tensor = t, .extent = sdsc.dimensions[d].extent, .gap = tensor.gap[d], .others = 128};
      for (const std::uint8_t e : tensor.order) {
        const std::uint64_t per = tensor.stick_of(e) == nullptr ? 1 : 64;
        if (e != d) gap.others *= (sdsc.dimensions[e].extent + tensor.gap[e] + per - 1) / per;
      }
      gaps.push_back(gap);
    }
  }
  return gaps;
}

// Each is a restickify of one tensor into another.
TEST(Lengths, DecideWhatAGapOfARestickifyMeans) {
  std::size_t accepted = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(SPYRE_SDSC_VECTORS)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("z_rs") && name != "r_restickpad") continue;
    const Bundle bundle = read_bundle(entry.path());
    for (const Gap& gap : gaps_of(bundle)) {
      const auto with = [&](std::uint64_t elements) {
        Lengths lengths(2);  // the other one is not known
        lengths[gap.tensor] = elements * gap.others;
        return lengths;
      };
      const std::uint64_t most = gap.extent + gap.gap, least = std::max<std::uint64_t>(gap.extent, most - 63);
      std::vector<std::uint64_t> good{least, (least + most) / 2, most}, bad{least - 1, most + 1, 1};
      if (gap.gap < std::min(64U, gap.extent)) good.push_back(gap.extent - gap.gap);
      for (const std::uint64_t elements : good) {
        SCOPED_TRACE(name + ", elements " + std::to_string(elements));
        // The reference wants to know all lengths.
        Lengths all = lengths_of(compile(bundle, {.lengths = with(elements)}));
        all[gap.tensor] = elements * gap.others;
        expect_reference(bundle, all);
        ++accepted;
      }
      for (const std::uint64_t elements : bad) {
        if (std::ranges::count(good, elements) != 0) continue;
        const std::string refusal = refusal_of(bundle, with(elements));
        EXPECT_TRUE(refusal.contains("has " + std::to_string(elements * gap.others) +
                                     " bytes: " + std::to_string(elements) + " of dimension ") &&
                    refusal.ends_with(std::to_string(least) + " to " + std::to_string(most)))
            << name << ": " << refusal;
        ++refused;
      }
    }
  }
  EXPECT_GE(accepted, 30u);
  EXPECT_GE(refused, 20u);
}

TEST(Lengths, AMemoryThatIsNoWholeNumberOfElementsIsRefused) {
  const Bundle bundle = vector_of("z_rs_100_192_128_192_0");
  EXPECT_EQ(refusal_of(bundle, {100 * 384 + 128, 0}),
            "bundle.mlir:5: sdsc_0.json: 0_ReStickifyOpHBM Tensor0 is in argument 0, which has 38528 bytes: no whole "
            "number of dimension mb, and an extent of 128 with a gap of 28 is 100, or 128 to 156");
}

// ---- tensors that end early -----------------------------------------------------------------------------------------

struct Conversion {
  const char* op;
  const char *from, *to;
  std::uint32_t extent;
};
constexpr Conversion kConversions[] = {
    {"fp32todl16", "IEEE_FP32", "SEN169_FP16", 64},  {"fp32todl16", "IEEE_FP32", "SEN169_FP16", 192},
    {"dl16tofp32", "SEN169_FP16", "IEEE_FP32", 64},  {"qfp8ch", "SEN169_FP16", "SEN143_FP8", 128},
    {"fp8todl16", "SEN143_FP8", "SEN169_FP16", 128}, {"identity", "IEEE_FP32", "SEN169_FP16", 128}};

// [4, columns], then the same in two layers.
Bundle bundle_of(const Conversion& conversion, bool layers) {
  BundleBuilder builder(2);
  std::vector<std::pair<std::string, std::uint32_t>> extents{{"mb", 4}, {"out", conversion.extent}};
  std::vector<std::string> order{"mb", "out"};
  if (layers) {
    extents.emplace_back("x", 2);
    order.emplace_back("x");
  }
  builder.add({.op = conversion.op,
               .extents = extents,
               .tensors = {{.order = order, .stick = "out", .base = "arg_0", .format = conversion.from},
                           {.order = order, .stick = "out", .base = "arg_1", .format = conversion.to}}});
  return read(builder);
}

Bytes random_bytes(std::uint64_t bytes) {
  std::mt19937 random(7);
  Bytes result(bytes);
  // Halves of a number of FP32 and numbers of DL16 that are finite; any byte is one of FP8.
  for (std::byte& b : result) b = static_cast<std::byte>(random() & 0x3F);
  return result;
}

// The same as with the missing sticks there and zero.
TEST(Lengths, ATensorThatEndsBeforeTheLastStickIsConvertedUpToThere) {
  for (const Conversion& conversion : kConversions) {
    for (const bool layers : {false, true}) {
      SCOPED_TRACE(std::string(conversion.op) + " of " + std::to_string(conversion.extent) +
                   (layers ? ", layers" : ""));
      const Bundle bundle = bundle_of(conversion, layers);
      const svp::DeviceProgram whole = compile(bundle);
      const Lengths full = lengths_of(whole);
      const unsigned ends =
          full[0] > full[1] || (full[0] == full[1] && length_uses(bundle)[0] == LengthUse::Short) ? 0 : 1;
      EXPECT_EQ(length_uses(bundle)[ends], LengthUse::Short);
      EXPECT_EQ(length_uses(bundle)[1 - ends], LengthUse::None);
      EXPECT_EQ(lengths_of(compile(bundle, {.lengths = full})), full);
      const std::uint64_t count = layers ? 2 : 1, missing = 4 * 128, layer = full[ends] / count - missing;
      Lengths lengths = full;
      lengths[ends] = layer * count;
      const svp::DeviceProgram program = compile(bundle, {.lengths = lengths});
      ASSERT_EQ(lengths_of(program), lengths);
      std::vector<Bytes> given{random_bytes(lengths[0]), random_bytes(lengths[1])}, padded;
      for (unsigned i = 0; i < 2; ++i) {  // sticks of each layer behind the last one
        Bytes bytes = given[i];
        for (std::uint64_t l = 1; i == ends && l <= count; ++l) {
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(l * layer + (l - 1) * missing), missing,
                       std::byte{0});
        }
        padded.push_back(std::move(bytes));
      }
      auto expected = run(whole, padded);
      for (std::uint64_t l = count; ends == 1 && l >= 1; --l) {
        const auto at = expected[1].begin() + static_cast<std::ptrdiff_t>(l * layer + (l - 1) * missing);
        expected[1].erase(at, at + static_cast<std::ptrdiff_t>(missing));
      }
      EXPECT_EQ(run(program, given)[1], expected[1]);
    }
  }
}

TEST(Lengths, ATensorThatIsShorterThanItsSticksIsRefused) {
  const Bundle bundle = bundle_of(kConversions[1], false);
  const auto text = [](unsigned bytes) {
    return "bundle.mlir:7: sdsc_0.json: 0_fp32todl16 Tensor0 is in argument 0, which has " + std::to_string(bytes) +
           " bytes, and needs 3072";
  };
  EXPECT_EQ(refusal_of(bundle, {5 * 512, 0}), "accepted");
  EXPECT_EQ(refusal_of(bundle, {5 * 512 + 128, 0}), text(5 * 512 + 128));
  EXPECT_EQ(refusal_of(bundle, {4 * 512, 0}), text(4 * 512));
  EXPECT_EQ(refusal_of(bundle, {128, 0}), text(128));
}

// ---- addresses of cores ---

// With a layer for each core: where it begins says how much memory the layers before it have.
TEST(Lengths, TheAddressesOfCoresAreThoseOfTheMemoryThatThereIs) {
  const std::vector<std::string> order{"mb", "out", "x"};
  BundleBuilder padded(2);
  padded.add({.op = "ReStickifyOpHBM",
              .extents = {{"mb", 128}, {"out", 192}, {"x", 2}},
              .tensors = {{.order = order, .stick = "out", .base = "arg_0", .gap = {{"mb", 72}}},
                          {.order = {"out", "mb", "x"}, .stick = "mb", .base = "arg_1"}},
              .slices = {{"x", 2}}});
  // 100 of 200 exist: the gap is 100, and N_ is 100 padded.
  auto& nodes = padded.file(0)["0_ReStickifyOpHBM"]["dscs_"][0]["ReStickifyOpHBM"]["scheduleTree_"];
  nodes[0]["backGapCore_"]["mb"]["-1"] = "100";
  const Bundle restickify = read(padded);
  EXPECT_EQ(refusal_of(restickify, {}), "accepted");
  expect_reference(restickify, {200 * 384 * 2, 192 * 256 * 2});
  EXPECT_TRUE(refusal_of(restickify, {228 * 384 * 2, 0})
                  .ends_with("Tensor0 of core 1 is given argument 0 + 76800, and the layout says argument 0 + 87552"));
  // One stick of FP32 for each row of 16 columns.
  BundleBuilder narrow(2);
  narrow.add(
      {.op = "fp32todl16",
       .extents = {{"mb", 4}, {"out", 64}, {"x", 2}},
       .tensors = {{.order = order, .stick = "out", .base = "arg_0", .gap = {{"out", -32}}, .format = "IEEE_FP32"},
                   {.order = order, .stick = "out", .base = "arg_1"}},
       .slices = {{"x", 2}}});
  narrow.file(0)["0_fp32todl16"]["dscs_"][0]["fp32todl16"]["scheduleTree_"][0].erase("backGapCore_");
  const Bundle conversion = read(narrow);
  EXPECT_EQ(length_uses(conversion)[0], LengthUse::Each);
  EXPECT_EQ(refusal_of(conversion, {}), "accepted");
  EXPECT_EQ(refusal_of(conversion, {1024, 1024}), "accepted");
  EXPECT_TRUE(refusal_of(conversion, {2048, 1024})
                  .ends_with("Tensor0 of core 1 is given argument 0 + 512, and the layout says argument 0 + 1024"));
}

// ---- lengths themselves ---------------------------------------------------------------------------------------------

TEST(Lengths, WhatIsNoLengthIsRefused) {
  const Bundle bundle = bundle_of(kConversions[0], false);
  EXPECT_EQ(refusal_of(bundle, {512}), "lengths: 1 are given, and the bundle has 2 parameters");
  EXPECT_EQ(refusal_of(bundle, {512, 100}),
            "lengths: argument 1 has 100 bytes, which is no multiple of 128 up to 16 GiB");
  EXPECT_EQ(refusal_of(bundle, {(std::uint64_t{16} << 30) + 128, 512}),
            "lengths: argument 0 has 17179869312 bytes, which is no multiple of 128 up to 16 GiB");
}

TEST(Lengths, ThatChangeNothingGiveTheSameProgram) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const BundleBuilder builder = test::random_bundle(seed);
    const Bundle bundle = read(builder);
    const svp::DeviceProgram program = compile(bundle);
    const auto uses = length_uses(bundle);
    Lengths lengths = lengths_of(program);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (uses[i] == LengthUse::Each) lengths[i] = 0;
      if (uses[i] == LengthUse::None) lengths[i] += 128 * seed;
    }
    EXPECT_TRUE(std::ranges::equal(compile(bundle, {.lengths = lengths}).bytes(), program.bytes())) << seed;
  }
}

TEST(Lengths, ABinaryBringsItsBundleOnlyWhenItDependsOnThem) {
  std::size_t with = 0;
  for (const auto& entry : fs::directory_iterator(SPYRE_SDSC_VECTORS)) {
    if (entry.path().filename() == "symdim") continue;
    BundleFiles files;
    const Bundle bundle = read_bundle(entry.path(), files);
    const bool needed = needs_lengths(bundle);
    const auto code = spyre_code_of(compile(bundle), needed ? &files : nullptr);
    const auto binary = svp::spyrecode::read_program_binary(code.binaries[0].bytes, code.binaries[0].name);
    EXPECT_EQ(binary.archive.empty(), !needed);
    if (!needed) continue;
    EXPECT_EQ(svp::spyrecode::read_archive(binary.archive, "archive"), files);
    ++with;
  }
  EXPECT_EQ(with, 17u);
}

}  // namespace
