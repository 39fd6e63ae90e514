// SPDX-License-Identifier: Apache-2.0
// Operations of spyre::ops on a card: the engine against the golden model, byte by byte, and against double precision.
#include "host_driver/ops/operations.hpp"

#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/elements.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/op_cases.hpp"

namespace svp {
namespace {

using ops::Op;

std::uint64_t seed() {
  const char* text = std::getenv("SPYRE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261124;
}
int cases() {
  const char* text = std::getenv("SPYRE_OP_CASES");
  return text != nullptr ? std::atoi(text) : 4;
}

class OperationsOnCard : public test::OneCard {
 protected:
  // Memory of the card with these bytes.
  static AllocationIndex on_card(std::span<const std::byte> bytes) {
    const AllocationIndex index = allocate(bytes.size());
    stream().Launch(Job::to_device(bytes.data(), index, bytes.size()), {});
    return index;
  }

  // The four bytes that a differing one is in.
  static std::string hex_word(std::span<const std::byte> bytes, auto at) {
    std::uint32_t word = 0;
    const auto offset = static_cast<std::size_t>(&*at - bytes.data()) / sizeof word * sizeof word;
    std::memcpy(&word, bytes.data() + offset, sizeof word);
    char text[16];
    std::snprintf(text, sizeof text, "%08x", word);
    return text;
  }

  // The engine's bytes of every argument, which the golden model's have to be.
  static void execute(const ops::Lowered& lowered, std::span<const std::span<std::byte>> memory) {
    std::vector<std::vector<std::byte>> golden;
    for (const auto bytes : memory) golden.emplace_back(bytes.begin(), bytes.end());
    const std::vector<std::span<std::byte>> golden_memory(golden.begin(), golden.end());
    svp::program::golden::run(lowered.program, golden_memory);

    ExecutionPlan plan;
    plan.add(Job(std::make_shared<const DeviceProgram>("case", lowered.program), context().engine()));
    context().load(plan);
    std::vector<AllocationIndex> places;
    std::vector<Argument> arguments;
    for (const auto bytes : memory) {
      places.push_back(on_card(bytes));
      arguments.push_back(Argument::raw(places.back()));
    }
    // What a card gives a launch when nobody says otherwise; that of these tests is for kernels that hang.
    stream().Launch(plan.jobs()[0], arguments, LaunchOptions{.budget_slices = 10'000});
    for (std::size_t i = 0; i < memory.size(); ++i) {
      stream().Launch(Job::from_device(memory[i].data(), places[i], memory[i].size()), {});
    }
    stream().Synchronize(test::soon());
    for (const AllocationIndex place : places) free(place);
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (std::memcmp(memory[i].data(), golden[i].data(), memory[i].size()) == 0) continue;
      const auto differs = std::ranges::mismatch(memory[i], golden[i]);
      throw std::runtime_error("argument " + std::to_string(i) + " differs from the golden model at byte " +
                               std::to_string(differs.in1 - memory[i].begin()) + " of " +
                               std::to_string(memory[i].size()) + ": " + hex_word(memory[i], differs.in1) + ", not " +
                               hex_word(golden[i], differs.in2));
    }
  }

  static SpyreTensor tensor(const ops::Array& array, DataType dtype = DataType::Float16) {
    std::vector<float> values(array.data.begin(), array.data.end());
    const SpyreTensor made = context().empty(dtype, array.size);
    context().copy(made, {HostShape::contiguous(DataType::Float32, array.size), std::as_bytes(std::span(values))},
                   context().default_stream());
    return made;
  }
  static ops::Array back(const SpyreTensor& from) {
    ops::Array array = ops::Array::of(from.shape());
    std::vector<float> values(array.data.size());
    const HostShape shape = HostShape::contiguous(DataType::Float32, from.shape());
    (void)context().copy({shape, std::as_writable_bytes(std::span(values))}, from, context().default_stream());
    context().default_stream().flex_stream().Synchronize(test::soon());
    std::ranges::copy(values, array.data.begin());
    return array;
  }
  static ops::Array random(std::vector<std::int64_t> size, unsigned seed) {
    ops::Array array = ops::Array::of(std::move(size));
    const std::vector<std::uint16_t> codes = test::random_dl16(array.data.size(), seed);
    std::ranges::transform(codes, array.data.begin(), [](std::uint16_t c) { return wire::fp64_from_dl16(c); });
    return array;
  }
  // A float16 result against the exact one.
  static void expect_within_bound(Op op, const SpyreTensor& result, const ops::Array& exact) {
    EXPECT_EQ(ops::beyond_bound(op, DeviceType::Dl16, back(result), exact), std::nullopt);
  }
};

TEST_F(OperationsOnCard, EachIsTheGoldenModelsBitForBit) {
  for (const ops::OpInfo& info : ops::operation_table()) {
    test::Random random(seed() * 100 + static_cast<unsigned>(info.op));
    for (int number = 0; number < cases(); ++number) {
      const test::OpCase made = test::random_op_case(info.op, random, 20000);
      std::optional<std::string> wrong;
      ASSERT_NO_THROW(wrong = test::check_op_case(made, execute)) << made.text();
      ASSERT_EQ(wrong, std::nullopt) << *wrong << "\nSPYRE_SEED=" << seed();
    }
  }
}

TEST_F(OperationsOnCard, AProgramIsMadeOnceForItsForms) {
  Operations operations(context());
  const ops::Array a = random({5, 100}, 1);
  const ops::Array b = random({5, 100}, 2);
  const SpyreTensor inputs[] = {tensor(a), tensor(b)};
  const SpyreTensor first = operations.run(Op::Add, inputs).front();
  const SpyreTensor second = operations.run(Op::Add, inputs).front();
  EXPECT_EQ(operations.programs(), 1U);
  EXPECT_NE(first.allocation_index(), second.allocation_index());
  expect_within_bound(Op::Add, second, ops::reference(Op::Add, {a, b}).front());
  const SpyreTensor other[] = {inputs[0], inputs[1].slice(0, 0, 1)};
  operations.run(Op::Add, other);
  EXPECT_EQ(operations.programs(), 2U);
}

TEST_F(OperationsOnCard, ViewsThatCannotBeWalkedAreCopied) {
  Operations operations(context());
  const ops::Array a = random({6, 200}, 3);
  const SpyreTensor whole = tensor(a);
  const SpyreTensor part = whole.slice(1, 10, 110).slice(0, 0, 6, 2);  // begins inside of a stick
  const SpyreTensor inputs[] = {part};
  const double numbers[] = {2.0};
  const SpyreTensor got = operations.run(Op::Mul, inputs, numbers).front();
  ops::Array expected = ops::Array::of({3, 100});
  for (std::size_t i = 0; i < 300; ++i) expected.data[i] = 2 * a.data[i / 100 * 400 + i % 100 + 10];
  expect_within_bound(Op::Mul, got, expected);
}

TEST_F(OperationsOnCard, AResultGoesWhereItIsWanted) {
  Operations operations(context());
  const ops::Array a = random({4, 70}, 4);
  const SpyreTensor x = tensor(a);
  const SpyreTensor inputs[] = {x};
  // In place.
  operations.run(Op::Neg, inputs, {}, {}, {.stream = {}, .out = x, .core_mask = 0});
  expect_within_bound(Op::Neg, x, ops::reference(Op::Neg, {a}).front());
  // Into rows of a larger tensor; and into columns that share sticks with others, by a copy.
  const SpyreTensor rows = tensor(ops::Array::of({9, 70}));
  operations.run(Op::Neg, inputs, {}, {}, {.stream = {}, .out = rows.narrow(0, 3, 4), .core_mask = 0});
  const ops::Array got = back(rows);
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const bool inside = i >= 3 * 70 && i < 7 * 70;
    ASSERT_EQ(got.data[i], inside ? a.data[i - 3 * 70] : 0) << i;
  }
  const SpyreTensor wide = tensor(ops::Array::of({4, 200}));
  operations.run(Op::Neg, inputs, {}, {}, {.stream = {}, .out = wide.narrow(1, 33, 70), .core_mask = 0});
  const ops::Array columns = back(wide);
  for (std::size_t i = 0; i < columns.data.size(); ++i) {
    const std::size_t c = i % 200;
    ASSERT_EQ(columns.data[i], c >= 33 && c < 103 ? a.data[i / 200 * 70 + c - 33] : 0) << i;
  }
}

TEST_F(OperationsOnCard, WhatDoesNotFitIsRefusedByItsName) {
  Operations operations(context());
  const SpyreTensor inputs[] = {tensor(random({4, 70}, 5)), tensor(random({4, 71}, 6))};
  const auto field_of = [&](Op op, std::span<const SpyreTensor> tensors, std::span<const std::int64_t> integers = {}) {
    try {
      operations.run(op, tensors, {}, integers);
    } catch (const InvalidArgument& error) {
      return error.field();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(field_of(Op::Add, inputs), "shape");
  EXPECT_EQ(field_of(Op::MatMul, inputs), "shape");
  EXPECT_EQ(field_of(Op::Add, {}), "inputs");
  const std::int64_t dim[] = {0, 7};
  EXPECT_EQ(field_of(Op::Sum, {inputs, 1}, dim), "dim");
  const std::int64_t k[] = {400};
  EXPECT_EQ(field_of(Op::TopK, {inputs, 1}, k), "k");
  EXPECT_EQ(field_of(Op::Embedding, inputs), "dtype");
  EXPECT_EQ(field_of(Op::MaxPool2d, {inputs, 1}), "shape");
  const SpyreTensor images[] = {tensor(random({1, 6, 4, 4}, 11)), tensor(random({4, 6, 5, 3}, 12))};
  EXPECT_EQ(field_of(Op::AvgPool2d, {images, 1}), "kernel_size");
  EXPECT_EQ(field_of(Op::Conv2d, images), "shape");  // the kernel is higher than the image
  const std::int64_t groups[] = {1, 1, 1, 1, 1, 1, 4};
  EXPECT_EQ(field_of(Op::Conv2d, images, groups), "groups");
}

// Along the sticks and across them. Where each element is larger than those before, the compute array takes several
// requests for a line; with SPYRE_ARRAY_MIXED=1 the engine goes on in the middle of one.
TEST_F(OperationsOnCard, TheLargestOfALongLineAreFoundInParts) {
  constexpr std::int64_t kExtent = 70'000, kLines = 3, kRanks = 100;
  Operations operations(context());
  for (const bool across : {false, true}) {
    SCOPED_TRACE(across);
    ops::Array array = ops::Array::of(across ? std::vector{kExtent, kLines} : std::vector{kLines, kExtent});
    for (std::int64_t i = 0; i < kExtent; ++i) {
      const std::int64_t values[kLines] = {i, kExtent - i, i * 7919 % kExtent};
      for (std::int64_t line = 0; line < kLines; ++line) {
        array.data[static_cast<std::size_t>(across ? i * kLines + line : line * kExtent + i)] =
            static_cast<double>(values[line]);
      }
    }
    const SpyreTensor x = tensor(array, DataType::Float32);
    const std::int64_t integers[] = {kRanks, across ? 0 : 1, 2};
    const std::vector<SpyreTensor> results = operations.run(Op::TopK, {&x, 1}, {}, integers);
    const ops::Array values = back(results[0]), indices = back(results[1]);
    for (std::int64_t line = 0; line < kLines; ++line) {
      for (std::int64_t rank = 0; rank < kRanks; ++rank) {
        const auto at = static_cast<std::size_t>(across ? rank * kLines + line : line * kRanks + rank);
        ASSERT_EQ(values.data[at], static_cast<double>(kExtent - rank - (line == 1 ? 0 : 1))) << line << ", " << rank;
        const auto index = static_cast<std::int64_t>(indices.data[at]);
        const std::int64_t of_index[kLines] = {index, kExtent - index, index * 7919 % kExtent};
        ASSERT_EQ(static_cast<double>(of_index[line]), values.data[at]) << line << ", " << rank;
      }
    }
  }
}

TEST_F(OperationsOnCard, AnIndexOutsideEndsTheLaunchWithItsOperation) {
  Operations operations(context());
  const std::int32_t rows[] = {1, 9};
  const SpyreTensor index =
      context().to_device({HostShape::contiguous(DataType::Int32, {2}), std::as_bytes(std::span(rows))});
  const SpyreTensor inputs[] = {tensor(random({4, 70}, 7)), index};
  operations.run(Op::Embedding, inputs);
  try {
    stream().Synchronize(test::soon());
    ADD_FAILURE() << "an index outside of its table was not refused";
  } catch (const StreamError& error) {
    EXPECT_NE(
        std::string(error.what()).find("index 9 is outside of argument 0, which has 4 rows: operation 0 (Gather)"),
        std::string::npos)
        << error.what();
  }
  stream().Reset();
}

TEST_F(OperationsOnCard, TheWatchdogNamesTheOperationThatItEnds) {
  ops::ProgramWriter writer;
  const auto form = ops::TensorForm::dense(DataType::Float32, {2048, 1024}, DeviceType::Fp32);
  const ops::Value x = writer.argument(form, wire::program::Access::ReadWrite);
  writer.emit({.opcode = wire::program::Opcode::Neg, .extent = {1, 32}, .operands = {aligned(x, 2), aligned(x, 2)}});
  // Two million elements: hundreds of slices.
  writer.emit(
      {.opcode = wire::program::Opcode::Tanh, .extent = form.size(), .operands = {aligned(x, 2), aligned(x, 2)}});
  ExecutionPlan plan;
  plan.add(Job(std::make_shared<const DeviceProgram>("long", writer.finish()), context().engine()));
  context().load(plan);
  const SpyreTensor tensor = context().empty(DataType::Float32, form.size());
  const Argument argument = Argument::raw(tensor.allocation_index());
  stream().Launch(plan.jobs()[0], {&argument, 1}, LaunchOptions{.core_mask = 1, .budget_slices = 2});
  try {
    stream().Synchronize(test::soon());
    ADD_FAILURE() << "the launch ended within two slices";
  } catch (const StreamError& error) {
    EXPECT_NE(std::string(error.what()).find("TIMEOUT"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("in operation 1 (Tanh)"), std::string::npos) << error.what();
  }
  stream().Reset();
}

TEST_F(OperationsOnCard, EveryNumberOfCoresGivesTheSameBits) {
  const unsigned cores = context().device().config().cores;
  Operations operations(context());
  const SpyreTensor x = tensor(random({200, 300}, 9));
  const SpyreTensor w = tensor(random({300, 130}, 10));
  const SpyreTensor image = tensor(random({2, 66, 9, 8}, 11));
  const SpyreTensor kernel = tensor(random({40, 66, 3, 3}, 12));
  const SpyreTensor by_channel = tensor(random({66, 1, 3, 3}, 13));
  const auto bits_with = [&](std::uint64_t mask) {
    std::vector<ops::Array> results;
    const auto add = [&](Op op, std::vector<SpyreTensor> inputs, std::vector<std::int64_t> integers = {}) {
      const OperationOptions options{.stream = {}, .out = {}, .core_mask = mask};
      results.push_back(back(operations.run(op, inputs, {}, integers, options).front()));
    };
    add(Op::MatMul, {x, w});
    add(Op::LinearFp8, {x, x});
    add(Op::Softmax, {x}, {-1});
    add(Op::LayerNorm, {x});
    add(Op::Sum, {x}, {0, 0});
    add(Op::Add, {x, x.slice(0, 0, 1)});
    add(Op::Copy, {x.transpose(0, 1)});
    add(Op::MaxPool2d, {image}, {3, 2, 2, 1, 1, 1});
    add(Op::AvgPool2d, {image}, {3, 2, 2, 1, 1, 1});
    add(Op::Conv2d, {image, kernel}, {1, 2, 1, 1});
    add(Op::Conv2d, {image, by_channel}, {1, 1, 1, 1, 2, 1, 66});
    return results;
  };
  const auto one = bits_with(1);
  for (std::uint64_t mask = 2; mask < std::uint64_t{1} << cores; ++mask) {
    const auto several = bits_with(mask);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_EQ(several[i].data, one[i].data) << "cores " << mask << ", " << i;
  }
}

TEST_F(OperationsOnCard, ProgramsComeBackAfterAReset) {
  Operations operations(context());
  const ops::Array a = random({3, 64}, 8);
  {
    const SpyreTensor inputs[] = {tensor(a)};
    operations.run(Op::Exp, inputs);
    stream().Synchronize(test::soon());
  }
  context().recover(ResetLevel::Function);
  const SpyreTensor inputs[] = {tensor(a)};
  expect_within_bound(Op::Exp, operations.run(Op::Exp, inputs).front(), ops::reference(Op::Exp, {a}).front());
  EXPECT_EQ(operations.programs(), 1U);
}

}  // namespace
}  // namespace svp
