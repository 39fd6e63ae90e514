// SPDX-License-Identifier: Apache-2.0
// Device programs over time: resets, several streams, launches that the card keeps, and damage.
#include "host_driver/runtime/prepared_launches.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using wire::program::Operand;
using wire::program::Operation;

class ProgramLoading : public test::ProgramCard {
 protected:
  static constexpr std::uint32_t kSticks = 40;
  static constexpr std::uint64_t kBytes = kSticks * wire::kStickBytes;

  // Overwrites bytes of the program where it lies on the card.
  static void damage(const Job& job, std::uint64_t offset, std::uint8_t value) {
    const std::uint64_t stick = offset / wire::kStickBytes * wire::kStickBytes;
    Bytes bytes(wire::kStickBytes);
    std::copy_n(job.device_program()->bytes().begin() + static_cast<std::ptrdiff_t>(stick), bytes.size(),
                bytes.begin());
    bytes[offset - stick] = std::byte{value};
    stream().Launch(Job::to_device(bytes.data(), job.program()->program_index(), bytes.size(), stick), {});
    stream().Synchronize(test::soon());
  }
  std::string error_of(const Job& job) {
    const Argument arguments[] = {Argument::raw(room(kBytes)), Argument::raw(room(kBytes))};
    stream().Launch(job, arguments);
    std::string text = "ended well";
    try {
      stream().Synchronize(test::soon());
    } catch (const StreamError& error) {
      text = error.what();
      EXPECT_EQ(error.failure().status, wire::Status::KernelStatus);
      EXPECT_EQ(error.failure().job, "copies");
    }
    stream().Reset();
    return text;
  }
};

TEST_F(ProgramLoading, AFunctionResetTakesProgramsAwayAndLoadBringsThemBack) {
  ExecutionPlan plan({Job(copy_through_workspace(kSticks)), Job(copies(1, kSticks))});
  context().load(plan);
  EXPECT_TRUE(plan.loaded());
  const Job before = plan.jobs()[0];
  context().recover(ResetLevel::Function);
  EXPECT_FALSE(plan.loaded());
  const AllocationIndex from = holding(pattern(kBytes, 1)), to = room(kBytes);
  const Argument arguments[] = {Argument::raw(from), Argument::raw(to)};
  EXPECT_THROW(stream().Launch(before, arguments), InvalidArgument);
  context().load(plan);
  EXPECT_TRUE(plan.loaded());
  for (const Job& job : plan.jobs()) {
    stream().Launch(Job::fill(to, kBytes, 0), {});
    stream().Launch(job, arguments);
    EXPECT_EQ(content_of(to, kBytes), pattern(kBytes, 1)) << job.binary()->name();
  }
  EXPECT_EQ(plan.jobs()[0].allocation_index(), plan.jobs()[1].allocation_index());
}

TEST_F(ProgramLoading, CopiesShareTheProgramAndTheLastOneFreesIt) {
  const auto bytes = [] { return context().runtime().allocator().statistics().bytes.current; };
  (void)load(copies(1, kSticks));  // the engine stays
  const auto before = bytes();
  ExecutionPlan plan({Job(copies(1, kSticks))});
  context().load(plan);
  const auto loaded = bytes();
  {
    const ExecutionPlan copy = plan;
    EXPECT_EQ(copy.jobs()[0].program(), plan.jobs()[0].program());
    plan.unload();
    EXPECT_FALSE(plan.loaded());
    EXPECT_TRUE(copy.loaded());
    EXPECT_EQ(bytes(), loaded);
  }
  EXPECT_EQ(bytes(), before);
}

TEST_F(ProgramLoading, TwoStreamsRunOneJobAtOnce) {
  const Job job = load(copy_through_workspace(kSticks));
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  constexpr unsigned kLaunches = 60;
  const AllocationIndex from[] = {holding(pattern(kBytes, 1)), holding(pattern(kBytes, 2))};
  const AllocationIndex to[] = {room(kBytes), room(kBytes)};
  const Argument one[] = {Argument::raw(from[0]), Argument::raw(to[0])};
  const Argument two[] = {Argument::raw(from[1]), Argument::raw(to[1])};
  for (unsigned i = 0; i < kLaunches; ++i) {
    stream().Launch(job, one);
    other.Launch(job, two);
  }
  other.Synchronize(test::soon());
  EXPECT_EQ(content_of(to[0], kBytes), pattern(kBytes, 1));
  EXPECT_EQ(content_of(to[1], kBytes), pattern(kBytes, 2));
}

TEST_F(ProgramLoading, AProgramThatOneStreamLoadsIsReadyOnAnotherBehindAnEvent) {
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  ExecutionPlan one({Job(copies(1, kSticks))}), two({Job(copies(2, kSticks))});
  one.load(context().runtime(), stream(), context().engine());
  two.load(context().runtime(), other, context().engine());
  const AllocationIndex from = holding(pattern(kBytes, 7));
  const Argument arguments[] = {Argument::raw(from), Argument::raw(from), Argument::raw(room(kBytes)),
                                Argument::raw(room(kBytes))};
  other.Launch(two.jobs()[0], arguments);
  other.Synchronize(test::soon());
  EXPECT_EQ(content_of(arguments[3].allocation, kBytes), pattern(kBytes, 7));
}

TEST_F(ProgramLoading, PreparedAndPatchedLaunches) {
  const Job job = load(copy_through_workspace(kSticks));
  const AllocationIndex a = holding(pattern(kBytes, 1)), b = holding(pattern(kBytes, 2)), to = room(kBytes);
  const Argument first[] = {Argument::raw(a), Argument::raw(to)};
  const Argument second[] = {Argument::raw(b), Argument::raw(to)};
  const LaunchRequest request{&job, first, {}};
  const auto prepared = stream().Prepare({&request, 1});
  for (int i = 0; i < 3; ++i) {
    stream().Launch(Job::fill(to, kBytes, 0), {});
    stream().Launch(*prepared);
    EXPECT_EQ(content_of(to, kBytes), pattern(kBytes, 1));
  }
  stream().Patch(*prepared, 0, second);
  stream().Launch(*prepared);
  EXPECT_EQ(content_of(to, kBytes), pattern(kBytes, 2));
  EXPECT_TRUE(prepared->is_device_program(0));
}

TEST_F(ProgramLoading, CapturedLaunches) {
  const Job job = load(copies(1, kSticks)), through = load(copy_through_workspace(kSticks));
  const AllocationIndex a = holding(pattern(kBytes, 1)), b = room(kBytes), c = room(kBytes);
  (void)stream().BeginCapture();
  const Argument first[] = {Argument::raw(a), Argument::raw(b)}, second[] = {Argument::raw(b), Argument::raw(c)};
  stream().Launch(job, first);
  stream().Launch(through, second);
  const auto captured = stream().EndCapture();
  stream().Launch(*captured);
  EXPECT_EQ(content_of(c, kBytes), pattern(kBytes, 1));
}

TEST_F(ProgramLoading, LoadRepairsAnEngineThatIsDamagedOnTheCard) {
  ExecutionPlan plan({Job(copies(1, kSticks))});
  context().load(plan);
  EXPECT_EQ(error_of(plan.jobs()[0]), "ended well");
  const Job job = plan.jobs()[0];
  const Bytes damage = pattern(wire::kStickBytes, 1);
  stream().Launch(Job::to_device(damage.data(), job.allocation_index(), damage.size(), wire::kStickBytes), {});
  const Argument arguments[] = {Argument::raw(room(kBytes)), Argument::raw(room(kBytes))};
  stream().Launch(job, arguments);
  EXPECT_THROW(stream().Synchronize(test::soon()), StreamError);
  stream().Reset();
  context().load(plan);
  EXPECT_EQ(error_of(plan.jobs()[0]), "ended well");
}

TEST_F(ProgramLoading, ADirectoryHoldsPrograms) {
  const qemu::test::TemporaryFolder folder;
  for (const auto arguments : {SymbolicArguments::On, SymbolicArguments::Off}) {
    ExecutionPlan({Job(copy_through_workspace(kSticks)), Job(copies(1, kSticks))})
        .write_directory(folder.path() / "plan", arguments);
    ExecutionPlan plan = ExecutionPlan::from_directory(folder.path() / "plan");
    context().load(plan);
    const AllocationIndex from = holding(pattern(kBytes, 8));
    for (const Job& job : plan.jobs()) {
      const Argument operands[] = {Argument::raw(from), Argument::raw(room(kBytes))};
      stream().Launch(job, operands);
      EXPECT_EQ(content_of(operands[1].allocation, kBytes), pattern(kBytes, 8)) << job.binary()->name();
    }
  }
}

TEST_F(ProgramLoading, DamageOnTheCardIsRefusedByOperationOperandAndField) {
  const Job job = load(copies(1, kSticks));
  EXPECT_EQ(error_of(job), "ended well");
  const std::uint64_t operation = job.device_program()->header().operations_offset;
  damage(job, operation + offsetof(Operation, operand) + sizeof(Operand) + offsetof(Operand, argument), 9);
  EXPECT_THAT(error_of(job), testing::HasSubstr("the engine refused operation 0 (Copy), operand 1: base"));
  damage(job, operation + offsetof(Operation, rank), 99);
  EXPECT_THAT(error_of(job), testing::HasSubstr("the engine refused operation 0 (Copy): rank"));
  damage(job, 0, 0);
  EXPECT_THAT(error_of(job), testing::HasSubstr("the engine refused header: magic"));
  ExecutionPlan plan({job});
  context().load(plan);
  EXPECT_EQ(error_of(plan.jobs()[0]), "ended well");
}

}  // namespace
}  // namespace svp
