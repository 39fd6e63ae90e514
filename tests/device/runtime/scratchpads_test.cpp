// SPDX-License-Identifier: Apache-2.0
// Scratchpads outlive a launch: what one program leaves there the next one finds, on any stream, one launch at a time;
// zeros after a reset of the function; nothing for another function.

#include "host_driver/runtime/prepared_launches.hpp"
#include "qemu/card.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/gate.hpp"

namespace svp {
namespace {

using wire::program::Base;
using wire::program::Operand;

class ScratchpadsOfACard : public test::ProgramCard {
 protected:
  static constexpr std::uint32_t kSlices = 8;
  static constexpr std::uint32_t kSticks = 40;
  static constexpr std::uint64_t kBytes = kSticks * wire::kStickBytes;

  // All sticks, in equal parts over the slices.
  static Operand in_slices(std::uint32_t slices = kSlices) {
    Operand operand = run(kSticks, Base::Scratchpad);
    operand.split[0] = static_cast<std::uint8_t>(slices);
    operand.split_stride[0] = slices > 1 ? 1 : 0;
    return operand;
  }
  static test::ProgramBuilder builder_of(std::uint32_t slices) {
    test::ProgramBuilder builder;
    builder.slices = slices;
    builder.scratchpad_bytes = static_cast<std::uint32_t>(kBytes / slices);
    return builder;
  }
  // Its argument goes to the scratchpads, and nowhere else.
  static std::shared_ptr<const DeviceProgram> leave(std::uint32_t slices = kSlices) {
    test::ProgramBuilder builder = builder_of(slices);
    builder.add_argument(kBytes, Access::Read);
    builder.add(copy(kSticks, run(kSticks, Base::Argument), in_slices(slices)));
    return make("leave", builder);
  }
  // Its argument becomes what is in the scratchpads.
  static std::shared_ptr<const DeviceProgram> take(std::uint32_t slices = kSlices) {
    test::ProgramBuilder builder = builder_of(slices);
    builder.add_argument(kBytes, Access::Write);
    builder.add(copy(kSticks, in_slices(slices), run(kSticks, Base::Argument)));
    return make("take", builder);
  }
  // Argument 0 to the scratchpads; then, `rounds` times, to the workspace; then the scratchpads to argument 1.
  static std::shared_ptr<const DeviceProgram> through(std::uint32_t rounds) {
    test::ProgramBuilder builder = builder_of(kSlices);
    builder.add_argument(kBytes, Access::Read);
    builder.add_argument(kBytes, Access::Write);
    builder.pool_bytes = kBytes;
    builder.add(copy(kSticks, run(kSticks, Base::Argument), in_slices()));
    builder.begin_loop(rounds);
    builder.add(copy(kSticks, run(kSticks, Base::Argument), run(kSticks, Base::Pool)));
    builder.end_loop();
    builder.add(copy(kSticks, in_slices(), run(kSticks, Base::Argument, 1)));
    return make("through scratchpads", builder);
  }
  void launch(const Job& job, AllocationIndex memory, FlexStream& on = stream()) {
    const Argument argument = Argument::raw(memory);
    on.Launch(job, {&argument, 1});
  }
  static Bytes zeros() { return Bytes(kBytes); }
};

TEST_F(ScratchpadsOfACard, WhatAProgramLeavesThereTheNextOneFinds) {
  const Job first = load(leave()), second = load(take());
  const AllocationIndex out = room(kBytes);
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    launch(first, holding(pattern(kBytes, seed)));
    launch(second, out);
    EXPECT_EQ(content_of(out, kBytes), pattern(kBytes, seed));
  }
  stream().Launch(Job::fill(out, kBytes, 0), {});
  launch(second, out);
  EXPECT_EQ(content_of(out, kBytes), pattern(kBytes, 3)) << "it stays";
}

TEST_F(ScratchpadsOfACard, AStreamFindsWhatAnotherOneHasLeft) {
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  const Job first = load(leave()), second = load(take());
  const AllocationIndex out = room(kBytes);
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const AllocationIndex in = holding(pattern(kBytes, seed));
    launch(first, in);  // no event between the two: the launches are ordered as they were called
    launch(second, out, other);
    EXPECT_EQ(content_of(out, kBytes, other), pattern(kBytes, seed)) << seed;
  }
}

TEST_F(ScratchpadsOfACard, LaunchesOfTwoStreamsDoNotMix) {
  FlexStream* const streams[] = {&stream(), &context().runtime().next_stream(StreamPriority::Low)};
  const std::uint64_t all = context().runtime().launch_site(0).all_cores;
  const std::uint64_t cores[] = {1, all & ~std::uint64_t{1}};
  const Job job = load(through(200));
  constexpr unsigned kRounds = 12;
  std::vector<AllocationIndex> out;
  const AllocationIndex in[] = {holding(pattern(kBytes, 1)), holding(pattern(kBytes, 2))};
  out.reserve(2 * kRounds);
  for (unsigned i = 0; i < 2 * kRounds; ++i) out.push_back(room(kBytes));
  for (unsigned i = 0; i < 2 * kRounds; ++i) {
    const Argument arguments[] = {Argument::raw(in[i % 2]), Argument::raw(out[i])};
    streams[i % 2]->Launch(job, arguments, {.core_mask = cores[i % 2]});
  }
  for (unsigned i = 0; i < 2 * kRounds; ++i) {
    EXPECT_EQ(content_of(out[i], kBytes, *streams[i % 2]), pattern(kBytes, 1 + i % 2)) << i;
  }
}

TEST_F(ScratchpadsOfACard, PreparedLaunchesOfTwoStreamsDoNotMix) {
  FlexStream* const streams[] = {&stream(), &context().runtime().next_stream(StreamPriority::Low)};
  const Job job = load(through(200));
  std::shared_ptr<PreparedLaunches> prepared[2];
  AllocationIndex out[2];
  for (unsigned i = 0; i < 2; ++i) {
    out[i] = room(kBytes);
    const Argument arguments[] = {Argument::raw(holding(pattern(kBytes, 3 + i))), Argument::raw(out[i])};
    const LaunchRequest request{&job, arguments, {.core_mask = std::uint64_t{1} << i}};
    prepared[i] = streams[i]->Prepare({&request, 1});
  }
  for (unsigned i = 0; i < 20; ++i) streams[i % 2]->Launch(*prepared[i % 2]);
  for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(content_of(out[i], kBytes, *streams[i]), pattern(kBytes, 3 + i));
}

// The other stream is reset while it is held back; what comes behind it still waits for the first.
TEST_F(ScratchpadsOfACard, ALaunchThatIsDroppedLetsTheNextOneWaitForThoseBeforeIt) {
  FlexStream& second = context().runtime().next_stream(StreamPriority::Low);
  FlexStream& third = context().runtime().next_stream(StreamPriority::Low);
  const Job job = load(through(400)), look = load(take());
  const AllocationIndex out = room(kBytes), dropped = room(kBytes), seen = room(kBytes);
  const AllocationIndex in = holding(pattern(kBytes, 5)), other = holding(pattern(kBytes, 6));
  const Argument first[] = {Argument::raw(in), Argument::raw(out)};
  const Argument never[] = {Argument::raw(other), Argument::raw(dropped)};
  test::Gate gate;
  stream().LaunchHost(gate.passing());
  stream().Launch(job, first);
  second.Launch(job, never);
  second.Reset();
  launch(look, seen, third);
  gate.open();
  EXPECT_EQ(content_of(seen, kBytes, third), pattern(kBytes, 5));
  EXPECT_EQ(content_of(out, kBytes), pattern(kBytes, 5));
  EXPECT_NO_THROW(second.Synchronize(test::soon()));
}

TEST_F(ScratchpadsOfACard, AfterAResetOfTheFunctionTheyAreZeros) {
  ExecutionPlan plan({Job(leave()), Job(take())});
  context().load(plan);
  launch(plan.jobs()[0], holding(pattern(kBytes, 7)));
  stream().Synchronize(test::soon());
  context().recover(ResetLevel::Function);
  // Memory that was used and freed, where they may come to lie.
  const AllocationIndex used = allocate(128 * wire::kMiB);
  stream().Launch(Job::fill(used, 128 * wire::kMiB, ~std::uint64_t{0}), {});
  stream().Synchronize(test::soon());
  free(used);
  context().load(plan);
  const AllocationIndex out = room(kBytes);
  stream().Launch(Job::fill(out, kBytes, ~std::uint64_t{0}), {});
  launch(plan.jobs()[1], out);
  EXPECT_EQ(content_of(out, kBytes), zeros());
}

TEST_F(ScratchpadsOfACard, MoreSlicesKeepWhatIsInTheFirst) {
  context().recover(ResetLevel::Function);
  const Job first = load(leave(1)), first_again = load(take(1)), all = load(take(kSlices));
  launch(first, holding(pattern(kBytes, 9)));
  const AllocationIndex out = room(kBytes);
  launch(all, out);
  Bytes expected = zeros();
  constexpr std::uint64_t kPart = kBytes / kSlices;
  std::copy_n(pattern(kBytes, 9).begin(), kPart, expected.begin());
  EXPECT_EQ(content_of(out, kBytes), expected);
  launch(first_again, out);
  EXPECT_EQ(content_of(out, kBytes), pattern(kBytes, 9));
}

// ---- cards of their own

std::unique_ptr<Context> tenant_of(const std::shared_ptr<Card>& card, unsigned function) {
  ContextOptions options;
  options.function = function;
  return Context::open(card, std::move(options));
}

class ScratchpadsOfFunctions : public ScratchpadsOfACard {
 protected:
  static void SetUpTestSuite() {}
  void TearDown() override {}

  struct Tenant {
    explicit Tenant(std::unique_ptr<Context> opened) : context(std::move(opened)) { context->load(plan); }
    Bytes launch(std::size_t job, const Bytes& before) {
      FlexAllocator& allocator = context->runtime().allocator();
      FlexStream& on = context->runtime().default_stream();
      const AllocationIndex memory = allocator.allocate(before.size());
      on.Launch(Job::to_device(before.data(), memory, before.size()), {});
      const Argument argument = Argument::raw(memory);
      on.Launch(plan.jobs()[job], {&argument, 1});
      const Bytes after = content_of(memory, before.size(), on);
      allocator.deallocate(memory);
      return after;
    }
    std::unique_ptr<Context> context;
    ExecutionPlan plan{{Job(leave(wire::program::kMaxSlices / 4)), Job(take())}};
  };
};

TEST_F(ScratchpadsOfFunctions, AnotherFunctionDoesNotSeeThem) {
  const std::shared_ptr<Card> card = value_or_throw(Card::boot({}));
  Tenant one(tenant_of(card, 0)), two(tenant_of(card, 1));
  one.launch(0, pattern(kBytes, 1));
  EXPECT_EQ(two.launch(1, pattern(kBytes, 2)), zeros());
  two.launch(0, pattern(kBytes, 3));
  EXPECT_EQ(one.launch(1, zeros()), pattern(kBytes, 1));
  EXPECT_EQ(two.launch(1, zeros()), pattern(kBytes, 3));
}

TEST_F(ScratchpadsOfFunctions, ABudgetThatIsExhaustedIsATypedErrorAndNothingMore) {
  CardOptions options;
  options.populated_budget_bytes = 96 * wire::kMiB;
  options.sole_function = 0;  // its budget is not divided
  const std::shared_ptr<Card> card = value_or_throw(Card::boot(options));
  Tenant tenant(tenant_of(card, 0));
  FlexAllocator& allocator = tenant.context->runtime().allocator();
  FlexStream& on = tenant.context->runtime().default_stream();
  const AllocationIndex memory = allocator.allocate(256 * wire::kMiB);
  try {
    on.Launch(Job::fill(memory, 256 * wire::kMiB, 1), {});
    on.Synchronize(test::soon());
    FAIL() << "the budget is no limit";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().status, wire::Status::MemoryBudget) << error.what();
  }
  on.Reset();
  try {
    tenant.launch(0, pattern(kBytes, 1));
    FAIL() << "there is room for scratchpads";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().status, wire::Status::MemoryBudget) << error.what();
  }
}

}  // namespace
}  // namespace svp
