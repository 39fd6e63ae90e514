// SPDX-License-Identifier: Apache-2.0
// Launches of device programs: what the driver adds, and what it refuses.
#include "tests/device/runtime/program_card.hpp"

namespace svp {
namespace {

using wire::program::Base;
using wire::program::Opcode;

class Programs : public test::ProgramCard {
 protected:
  static constexpr std::uint32_t kSticks = 40;
  static constexpr std::uint64_t kBytes = kSticks * wire::kStickBytes;

  template <typename Refusal = InvalidArgument>
  static std::string refused(const Job& job, std::span<const Argument> arguments) {
    try {
      stream().Launch(job, arguments);
    } catch (const Refusal& error) {
      return error.what();
    }
    return "launched";
  }
};

TEST_F(Programs, OneArgumentIsChangedInPlace) {
  test::ProgramBuilder builder;
  const auto all = run(kSticks, Base::Argument, builder.add_argument(kBytes, Access::ReadWrite));
  builder.add(operation(Opcode::Add, kSticks, {all, all, all}));
  const Job job = load(make("twice", builder));
  std::vector<std::uint16_t> values(kBytes / 2), doubled(kBytes / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = wire::dl16_from_fp32(static_cast<float>(i % 200));
    doubled[i] = wire::dl16_from_fp32(static_cast<float>(i % 200 * 2));
  }
  const auto before = std::as_bytes(std::span(values)), after = std::as_bytes(std::span(doubled));
  const AllocationIndex memory = holding({before.begin(), before.end()});
  const Argument argument = Argument::raw(memory);
  stream().Launch(job, {&argument, 1});
  EXPECT_EQ(content_of(memory, kBytes), Bytes(after.begin(), after.end()));
}

TEST_F(Programs, TwoArgumentsWithOffsets) {
  const Job job = load(copies(1, kSticks));
  const Bytes content = pattern(kBytes + 1024, 1);
  const AllocationIndex from = holding(content), to = holding(pattern(kBytes + 2048, 2));
  const Argument arguments[] = {Argument::raw(from, 256, kBytes), Argument::raw(to, 1024)};
  stream().Launch(job, arguments);
  Bytes expected = pattern(kBytes + 2048, 2);
  std::copy_n(content.begin() + 256, kBytes, expected.begin() + 1024);
  EXPECT_EQ(content_of(to, kBytes + 2048), expected);
}

TEST_F(Programs, AsManyArgumentsAsALaunchTakes) {
  constexpr unsigned kPairs = wire::program::kMaxArguments / 2;
  const Job job = load(copies(kPairs, kSticks));
  std::vector<Argument> arguments(std::size_t{2} * kPairs);
  for (unsigned i = 0; i < kPairs; ++i) {
    arguments[i] = Argument::raw(holding(pattern(kBytes, i)));
    arguments[kPairs + i] = Argument::raw(room(kBytes));
  }
  stream().Launch(job, arguments);
  for (unsigned i = 0; i < kPairs; ++i) {
    EXPECT_EQ(content_of(arguments[kPairs + i].allocation, kBytes), pattern(kBytes, i)) << i;
  }
}

TEST_F(Programs, OneArgumentMoreIsRefused) {
  test::ProgramBuilder builder;
  for (unsigned i = 0; i <= wire::program::kMaxArguments; ++i) builder.add_argument(kBytes, Access::Read);
  std::string text = "made";
  try {
    (void)make("many", builder);
  } catch (const InvalidArgument& error) {
    text = error.what();
  }
  EXPECT_THAT(text, testing::HasSubstr("device program many is refused: header: argument count"));
}

TEST_F(Programs, TheMostArgumentsAndAWorkspace) {
  constexpr unsigned kLast = wire::program::kMaxArguments - 1;
  test::ProgramBuilder builder;
  for (unsigned i = 0; i <= kLast; ++i) builder.add_argument(kBytes, i == kLast ? Access::Write : Access::Read);
  builder.pool_bytes = kBytes;
  builder.add(copy(kSticks, run(kSticks, Base::Argument, 0), run(kSticks, Base::Pool)));
  for (unsigned i = 1; i < kLast; ++i) {
    const Operand sum = run(kSticks, Base::Pool);
    builder.add(operation(Opcode::Maximum, kSticks, {sum, run(kSticks, Base::Argument, i), sum}));
  }
  builder.add(copy(kSticks, run(kSticks, Base::Pool), run(kSticks, Base::Argument, kLast)));
  const Job job = load(make("largest", builder));
  std::vector<Argument> arguments;
  std::vector<std::uint16_t> expected(kBytes / 2);
  std::mt19937 random(7);
  for (unsigned i = 0; i <= kLast; ++i) {
    std::vector<std::uint16_t> values(kBytes / 2);
    for (std::uint16_t& value : values) value = wire::dl16_from_fp32(static_cast<float>(random() % 2000));
    for (std::size_t k = 0; k < values.size() && i < kLast; ++k) expected[k] = std::max(expected[k], values[k]);
    const auto bytes = std::as_bytes(std::span(values));
    arguments.push_back(Argument::raw(holding({bytes.begin(), bytes.end()})));
  }
  stream().Launch(job, arguments);
  const auto bytes = std::as_bytes(std::span(expected));
  EXPECT_EQ(content_of(arguments[kLast].allocation, kBytes), Bytes(bytes.begin(), bytes.end()));
}

TEST_F(Programs, EachLaunchHasAWorkspaceAndGivesItBack) {
  const auto before = context().runtime().allocator().statistics().bytes.current;
  const Job job = load(copy_through_workspace(kSticks));
  const AllocationIndex from = holding(pattern(kBytes, 3)), to = room(kBytes);
  const auto loaded = context().runtime().allocator().statistics().bytes.current;
  EXPECT_GT(loaded, before);
  const Argument arguments[] = {Argument::raw(from), Argument::raw(to)};
  for (int i = 0; i < 20; ++i) stream().Launch(job, arguments);
  EXPECT_EQ(content_of(to, kBytes), pattern(kBytes, 3));
  EXPECT_EQ(context().runtime().allocator().statistics().bytes.current, loaded);
}

TEST_F(Programs, AllProgramsShareOneImageOfTheEngine) {
  ExecutionPlan plan({Job(copies(1, kSticks)), Job(copies(2, kSticks), context().engine())});
  context().load(plan);
  const Job third = load(copies(3, kSticks));
  EXPECT_EQ(plan.jobs()[0].allocation_index(), plan.jobs()[1].allocation_index());
  EXPECT_EQ(plan.jobs()[0].allocation_index(), third.allocation_index());
  EXPECT_EQ(context().engine(), context().engine());
}

TEST_F(Programs, ManyCoresComputeTheSame) {
  constexpr std::uint32_t kMany = 8192;
  const Job job = load(copies(1, kMany));
  const Bytes content = pattern(kMany * wire::kStickBytes, 4);
  const Argument arguments[] = {Argument::raw(holding(content)), Argument::raw(room(content.size()))};
  stream().Launch(job, arguments, {.core_mask = context().runtime().launch_site(0).all_cores});
  EXPECT_EQ(content_of(arguments[1].allocation, content.size()), content);
}

TEST_F(Programs, TensorsAreTheirStorage) {
  const Job job = load(copies(1, 4));
  const std::vector<float> values(4 * 64, 1.5F);
  const HostShape shape = HostShape::contiguous(DataType::Float32, {4, 64});
  const SpyreTensor from = context().to_device({shape, std::as_bytes(std::span(values))}, DeviceType::Dl16);
  const SpyreTensor to = context().empty(DataType::Float32, {4, 64}, DeviceType::Dl16);
  SpyreStream stream = context().default_stream();
  const SpyreTensor tensors[] = {from, to.permute({1, 0})};  // no kernel takes this view
  LaunchKernel(stream, ExecutionPlan({job}), tensors);
  std::vector<float> result(values.size());
  context().to_host(to, {shape, std::as_writable_bytes(std::span(result))});
  EXPECT_EQ(result, values);
}

TEST_F(Programs, ArgumentsThatDoNotFitAreRefused) {
  const Job job = load(copies(1, kSticks));
  const AllocationIndex memory = room(kBytes), small = room(kBytes - 128);
  const Argument good = Argument::raw(memory);
  const auto with = [&](const Argument& output) {
    const Argument arguments[] = {good, output};
    return refused(job, arguments);
  };
  EXPECT_THAT(with(Argument::raw(small)), testing::HasSubstr("operand argument 1 of kernel copies needs 5120 bytes"));
  EXPECT_THAT(with(Argument::raw(room(kBytes), 0, kBytes - 128)), testing::HasSubstr("4992 were given"));
  EXPECT_THAT(with(Argument::raw(room(kBytes), 64)), testing::HasSubstr("starts at byte 64"));
  EXPECT_THAT(with(Argument::raw(room(kBytes), 128)), testing::HasSubstr("from byte 128"));
  const Argument none[] = {good, Argument::raw(AllocationIndex::Null)};
  EXPECT_THAT(refused<InvalidAllocation>(job, none),
              testing::HasSubstr("operand argument 1 of kernel copies has no memory"));
  EXPECT_THAT(refused(job, {&good, 1}), testing::HasSubstr("takes 2 arguments, 1 were given"));
}

TEST_F(Programs, ArgumentsAreTheSameBytesOrDoNotOverlap) {
  const Job job = load(copies(1, kSticks));
  const AllocationIndex memory = holding(pattern(2 * kBytes, 5));
  const Argument same[] = {Argument::raw(memory), Argument::raw(memory)};
  EXPECT_EQ(refused(job, same), "launched");
  const Argument beside[] = {Argument::raw(memory), Argument::raw(memory, kBytes)};
  EXPECT_EQ(refused(job, beside), "launched");
  const Argument displaced[] = {Argument::raw(memory), Argument::raw(memory, 128)};
  EXPECT_THAT(refused(job, displaced), testing::HasSubstr("overlaps operand argument 0"));
  stream().Synchronize(test::soon());
}

// Without the flag of the header, as above, only arguments that are exactly the same bytes.
TEST_F(Programs, ArgumentsOfOneStorageReachDifferentlyFar) {
  for (const std::uint32_t flags : {0u, wire::program::kOneStorage}) {
    test::ProgramBuilder builder;
    builder.add_argument(2 * kBytes, Access::Read);
    builder.add_argument(kBytes, Access::Write);
    Operand behind = run(kSticks, Base::Argument, 0);
    behind.offset = kBytes;
    builder.add(copy(kSticks, behind, run(kSticks, Base::Argument, 1)));
    builder.flags = flags;
    const Job job = load(make("storage", builder));
    const Bytes content = pattern(2 * kBytes, 6);
    const AllocationIndex memory = holding(content);
    const Argument both[] = {Argument::raw(memory), Argument::raw(memory)};
    const std::string said = refused(job, both);
    if (flags == 0) {
      EXPECT_THAT(said, testing::HasSubstr("overlaps operand argument 0"));
    } else {
      EXPECT_EQ(said, "launched");
      EXPECT_EQ(content_of(memory, kBytes), Bytes(content.begin() + kBytes, content.end()));
    }
  }
}

TEST_F(Programs, WhatIsNotLoadedOrHasNoEngineIsRefused) {
  const Job job(copies(1, kSticks));
  const Argument arguments[] = {Argument::raw(room(kBytes)), Argument::raw(room(kBytes))};
  EXPECT_THAT(refused(job, arguments), testing::HasSubstr("is not loaded"));
  ExecutionPlan plan({job});
  EXPECT_THROW(plan.load(context().runtime(), stream()), InvalidArgument);
  EXPECT_THROW(Job(copies(1, kSticks), context().kernel("add")), InvalidArgument) << "no engine";
}

}  // namespace
}  // namespace svp
