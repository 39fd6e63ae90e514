// SPDX-License-Identifier: Apache-2.0
// Runtime::recover() against the real firmware core on a thread, with everybody else at work: outcomes exactly once,
// old handles refused, waiters told. (COMPUTE is refused there: that is the source here.)
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
using wire::Outcome;
constexpr std::uint64_t kMiB = wire::kMiB;

Clock::time_point in_time() { return Clock::now() + test_bounds::kCompute; }

// Opens the function of a native card; reset levels above fail as told.
class NativeSource final : public DeviceSource {
 public:
  NativeSource(test::NativeCard& card, std::function<Expected<void>(ResetLevel)> raise)
      : card_(card), raise_(std::move(raise)) {}
  Expected<std::unique_ptr<Device>> open() override { return Device::attach(card_.slot(1), card_.device_options()); }
  Expected<void> raise(ResetLevel level, bool) override { return raise_(level); }
  ResetLevel highest() const override { return ResetLevel::PowerCycle; }

 private:
  test::NativeCard& card_;
  const std::function<Expected<void>(ResetLevel)> raise_;
};

struct Rig {
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  std::vector<ResetLevel> raised{};
  Runtime runtime;
  FlexStream& stream = runtime.default_stream();
  CompiledKernel compiled{test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}}};
  ExecutionPlan plan{{Job(compiled)}};

  explicit Rig(RecoveryOptions recovery = {}, Timeouts timeouts = {})
      : runtime(card.attach(1, with(timeouts)), options(recovery),
                std::make_unique<NativeSource>(card, [this](ResetLevel level) {
                  raised.push_back(level);
                  return Expected<void>();
                })) {}
  static DeviceOptions with(const Timeouts& timeouts) {
    DeviceOptions options;
    options.timeouts = timeouts;
    return options;
  }
  static RuntimeOptions options(RecoveryOptions recovery) {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * kMiB, 16 * kMiB};
    options.staging.chunk_bytes = 64 * wire::kKiB;
    options.recovery = recovery;
    return options;
  }
  AllocationIndex allocate(std::uint64_t bytes) { return runtime.allocator().allocate(bytes); }
  // Poisons its stream: this card runs no kernels.
  void launch_source(FlexStream& on) {
    plan.load(runtime, on);
    const std::uint64_t bytes = 64 * 64 * 2;
    const AllocationIndex a = allocate(bytes), b = allocate(bytes), c = allocate(bytes);
    const std::vector<Argument> arguments{{.allocation = a, .shape = {64, 64}},
                                          {.allocation = b, .shape = {64, 64}},
                                          {.allocation = c, .shape = {64, 64}}};
    on.Launch(plan.jobs()[0], arguments);
  }
};

// Asks without launching anything: an empty job is refused only by the stream's state.
bool launchable(FlexStream& stream) {
  try {
    stream.Launch(Job(JobPlan()), {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Ends final : public LaunchObserver {
 public:
  void on_block(const BlockRecord&) noexcept override {}
  void on_launch_ended(std::uint64_t launch, Outcome outcome) noexcept override {
    const std::lock_guard lock(mutex_);
    ++count_[launch];
    outcome_[launch] = outcome;
  }
  std::size_t launches() const {
    const std::lock_guard lock(mutex_);
    return count_.size();
  }
  bool each_once() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(count_, [](const auto& entry) { return entry.second == 1; });
  }
  std::size_t with(Outcome outcome) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(outcome_, [&](const auto& entry) { return entry.second == outcome; }));
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, int> count_;
  std::map<std::uint64_t, Outcome> outcome_;
};

// What was signalled stays so, what failed too, and new events order streams, whatever was reset.
TEST(Recovery, EventsOverEachResetLevel) {
  for (const ResetLevel level : {ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function, ResetLevel::Firmware,
                                 ResetLevel::Card, ResetLevel::PowerCycle}) {
    SCOPED_TRACE(spyre::name(level));
    Rig rig;
    FlexStream& other = rig.runtime.next_stream(StreamPriority::Low);
    const auto before = rig.stream.Record();
    before->Synchronize(in_time());
    (void)rig.allocate(128);  // a card that sleeps grants no region
    rig.card.pause();
    rig.launch_source(rig.stream);
    const auto failed = rig.stream.Record();
    other.Wait(failed);
    rig.card.resume();
    EXPECT_THROW(other.Synchronize(in_time()), StreamError);
    (void)rig.runtime.recover(level);
    EXPECT_EQ(before->stage(), EventStage::Signalled);
    EXPECT_EQ(failed->stage(), EventStage::Failed);
    other.Wait(before);
    other.Wait(rig.stream.Record());
    rig.stream.Wait(other.Record());
    EXPECT_NO_THROW(rig.stream.Synchronize(in_time()));
    other.Wait(failed);
    EXPECT_THROW(other.Synchronize(in_time()), StreamError);
  }
}

TEST(Recovery, OldHandlesAreRefusedNewOnesWorkAndPinnedMemoryStays) {
  Rig rig;
  PinnedBuffer pinned = rig.runtime.host_memory().allocate(4096);
  std::memset(pinned.data(), 0x5a, pinned.size());
  for (const ResetLevel level :
       {ResetLevel::Function, ResetLevel::Firmware, ResetLevel::Card, ResetLevel::PowerCycle}) {
    const auto old = rig.allocate(1 * kMiB);
    FlexStream& second = rig.runtime.next_stream(StreamPriority::High);
    const RecoveryReport report = rig.runtime.recover(level);
    EXPECT_EQ(report.level(), level);
    EXPECT_THROW(rig.runtime.allocator().resolve(old), InvalidAllocation);
    EXPECT_NO_THROW(rig.runtime.allocator().deallocate(old));
    const auto fresh = rig.allocate(4096);
    for (FlexStream* stream : {&rig.stream, &second}) {
      stream->Launch(Job::to_device(pinned.data(), fresh, pinned.size()), {});
      EXPECT_NO_THROW(stream->Synchronize(in_time())) << name(level);
    }
    EXPECT_EQ(pinned.data()[0], std::byte{0x5a});
    rig.runtime.allocator().deallocate(fresh);
  }
  EXPECT_EQ(rig.raised, (std::vector{ResetLevel::Firmware, ResetLevel::Card, ResetLevel::PowerCycle}));
  EXPECT_EQ(rig.runtime.recoveries(), 4u);
}

TEST(Recovery, EveryLaunchEndsOnceWhateverTheCardWasDoing) {
  Rig rig;
  std::size_t launched = 0;
  Ends ends;
  std::vector<std::byte> data(1 * kMiB);
  std::uint64_t told = 0;
  for (int round = 0; round < 12; ++round) {
    const auto memory = rig.allocate(2 * kMiB);
    for (int i = 0; i < 30; ++i, launched += 2) {
      rig.stream.Launch(Job::fill(memory, 64 * wire::kKiB, 1), {}, {.observer = &ends});
      rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.observer = &ends});
    }
    if (round % 3 == 2) rig.card.pause();
    std::thread resumes([&] { rig.card.resume(); });
    const RecoveryReport report = rig.runtime.recover(round % 2 == 0 ? ResetLevel::Function : ResetLevel::Queue);
    resumes.join();  // bounded: it resumes the card once
    told += report.aborted + report.lost;
    EXPECT_EQ(ends.launches(), launched) << "a launch has not ended";
    EXPECT_TRUE(ends.each_once());
  }
  EXPECT_GT(ends.with(Outcome::Aborted) + ends.with(Outcome::Fault), 0u) << "no round had anything in flight";
  EXPECT_GT(told, 0u);
}

TEST(Recovery, AWaiterOfWorkThatARecoveryEndsIsTold) {
  for (const ResetLevel level : {ResetLevel::Queue, ResetLevel::Function, ResetLevel::Card}) {
    SCOPED_TRACE(name(level));
    Rig rig;
    const auto memory = rig.allocate(1 * kMiB);
    std::vector<std::byte> pageable(1 * kMiB);
    rig.card.pause();
    // More than the card takes, and some that waits for staging: all of it can only end by the recovery.
    for (int i = 0; i < 200; ++i) rig.stream.Launch(Job::fill(memory, 1 * kMiB, 1), {});
    rig.stream.Launch(Job::to_device(pageable.data(), memory, pageable.size()), {});
    const std::uint64_t sleeps = rig.runtime.device().statistics().sleeps;
    std::atomic<int> told{0};
    std::thread waiter([&] {
      try {
        rig.stream.Synchronize(in_time());
      } catch (const StreamError& error) {
        EXPECT_NE(error.info().outcome, Outcome::Ok);
        ++told;
      }
    });
    const auto end = in_time();
    while (rig.runtime.device().statistics().sleeps == sleeps && Clock::now() < end) std::this_thread::yield();
    // The card is let go when the recovery has begun to ask for something, so that it has not done the work before.
    std::thread resumes([&] {
      while (launchable(rig.stream) && Clock::now() < end) std::this_thread::yield();
      rig.card.resume();
    });
    const RecoveryReport report = rig.runtime.recover(level);
    resumes.join();  // bounded: it resumes the card once
    waiter.join();   // bounded: it waits until in_time() at most
    EXPECT_EQ(told.load(), 1);
    EXPECT_GT(report.aborted + report.lost, 0u);
    EXPECT_NO_THROW(rig.stream.Synchronize(in_time())) << "told again to a wait that began afterwards";
  }
}

TEST(Recovery, LaunchesAllocationsAndWaitsOfOtherThreadsSurviveRecoveries) {
  Rig rig;
  std::atomic<bool> over{false};
  std::atomic<unsigned> good{0};
  const auto work = [&](FlexStream& stream) {
    std::vector<std::byte> data(256 * wire::kKiB, std::byte{7}), back(data.size());
    while (!over.load()) {
      try {
        const auto memory = rig.allocate(data.size());
        stream.Launch(Job::to_device(data.data(), memory, data.size()), {});
        stream.Launch(Job::from_device(back.data(), memory, back.size()), {});
        stream.Synchronize(in_time());
        if (back == data) ++good;
        rig.runtime.allocator().deallocate(memory);
      } catch (const TimeoutError& error) {
        ADD_FAILURE() << error.what();
      } catch (const Error& error) {
        EXPECT_FALSE(error.info().next_step.empty()) << error.what();
        std::this_thread::yield();
      }
    }
    // What still refers to `data` has ended before it goes.
    try {
      stream.Synchronize(in_time());
    } catch (const Error&) {
    }
  };
  FlexStream& reset = rig.runtime.next_stream(StreamPriority::Low);
  std::thread first(work, std::ref(rig.stream));
  std::thread second(work, std::ref(rig.runtime.next_stream(StreamPriority::Low)));
  std::thread third([&] {
    while (!over.load()) {  // bounded: the test sets the flag; a reset is bounded by Timeouts::admin
      try {
        reset.Reset();
      } catch (const Error& error) {
        EXPECT_TRUE(error.info().recoverable) << error.what();
      }
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 30; ++round) {
    const unsigned before = good.load();
    try {
      rig.runtime.recover(round % 3 == 0 ? ResetLevel::Queue : ResetLevel::Function);
    } catch (const Error& error) {
      // Only because the others were in the way all the time.
      EXPECT_TRUE(error.info().recoverable) << error.what();
    }
    const auto end = in_time();
    while (good.load() == before && Clock::now() < end) std::this_thread::yield();
    ASSERT_GT(good.load(), before) << "nothing works after round " << round;
  }
  over = true;
  first.join();   // bounded: the flag is set; it waits until in_time() at most
  second.join();  // bounded: the flag is set; it waits until in_time() at most
  third.join();   // bounded: the flag is set
}

TEST(Recovery, AnErrorIsThrownAgainAndAgainUntilALevelHelps) {
  Rig rig;
  rig.card.die();
  EXPECT_THROW(rig.stream.Launch(Job::fill(rig.allocate(128), 128, 1), {}); rig.stream.Synchronize(in_time()), Error);
  for (int i = 0; i < 2; ++i) {
    try {
      rig.runtime.recover();
      ADD_FAILURE() << "a dead card was brought back";
    } catch (const Error& error) {
      EXPECT_NE(error.info().message.find("power cycle failed"), std::string::npos) << error.what();
    }
    EXPECT_THROW(rig.stream.Launch(Job::fill(AllocationIndex::Null, 128, 1), {}), Error);
    EXPECT_THROW(rig.allocate(64 * kMiB), Error);
  }
}

// ---- refused recoveries ---------------------------------------------------------------------------------------------

// A launch that another thread is writing for as long as the test wants: its HostOperation does not return.
class HeldLaunch {
 public:
  HeldLaunch(Rig& rig, FlexStream& on) {
    rig.plan.load(rig.runtime, on);
    const auto function = [this](const HostOperationInput&, std::span<std::byte>) -> std::size_t {
      held_.store(true);
      held_.notify_all();
      let_go_.wait(false);  // bounded: the destructor lets it go
      return wire::kStickBytes;
    };
    const Kernel& kernel = *rig.compiled.kernel();
    Job job(rig.compiled.kernel(), ProgramCorrectionMetadata::of(kernel),
            JobPlan({HostOperation{function}, CorrectionDMA{},
                     DeviceCompute{{rig.compiled.operand_shapes().begin(), rig.compiled.operand_shapes().end()}}}));
    job.set_program(rig.plan.jobs()[0].program());
    const std::uint64_t bytes = 64 * 64 * 2;
    std::vector<Argument> arguments;
    for (int i = 0; i < 3; ++i) arguments.push_back({.allocation = rig.allocate(bytes), .shape = {64, 64}});
    thread_ = std::thread([&on, job, arguments] {
      try {
        on.Launch(job, arguments);
      } catch (const Error&) {
      }
    });
    held_.wait(false);  // bounded: the launch reaches its HostOperation without waiting for the card
  }
  ~HeldLaunch() {
    let_go_.store(true);
    let_go_.notify_all();
    thread_.join();  // bounded: it was let go
  }

 private:
  std::atomic<bool> held_{false};
  std::atomic<bool> let_go_{false};
  std::thread thread_;
};

Timeouts impatient() {
  Timeouts timeouts;
  timeouts.quiesce = test_bounds::kExpires;  // reached: a launch or a reset is held
  return timeouts;
}

TEST(Recovery, AChunkedTransferGoesOnAfterARefusedRecovery) {
  for (const bool own_stream : {false, true}) {
    SCOPED_TRACE(own_stream ? "the transfer's stream is being launched on" : "another stream is being launched on");
    Rig rig({.highest = ResetLevel::Function}, impatient());
    FlexStream& busy = rig.runtime.next_stream(StreamPriority::Low);
    std::vector<std::byte> data(1 * kMiB), back(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251);
    const auto memory = rig.allocate(data.size());
    rig.plan.load(rig.runtime, busy);
    busy.Synchronize(in_time());
    rig.card.pause();
    FlexStream& stream = own_stream ? busy : rig.stream;
    stream.Launch(Job::to_device(data.data(), memory, data.size()), {});
    stream.Launch(Job::from_device(back.data(), memory, back.size()), {});
    {
      HeldLaunch held(rig, busy);
      try {
        rig.runtime.recover(ResetLevel::Function);
        ADD_FAILURE() << "recovered beside a launch that is half written";
      } catch (const Error& error) {
        EXPECT_TRUE(error.info().recoverable) << error.what();
      }
      rig.card.resume();
      const auto end = in_time();
      while (!stream.Query() && Clock::now() < end) std::this_thread::yield();
      ASSERT_TRUE(stream.Query()) << "the transfer was not continued";
      EXPECT_TRUE(back == data);
    }
  }
}

// A Reset() that another thread has begun, of a card that does not answer it until the test resumes it.
class HeldReset {
 public:
  HeldReset(Rig& rig, FlexStream& on) : rig_(rig) {
    rig.card.pause();
    thread_ = std::thread([&on] { on.Reset(); });
    while (launchable(on)) std::this_thread::yield();  // bounded: Reset() pauses the stream before it asks the card
  }
  ~HeldReset() {
    rig_.card.resume();
    thread_.join();  // bounded: the card answers
  }

 private:
  Rig& rig_;
  std::thread thread_;
};

TEST(Recovery, AResetOfOneStreamBesideItCostsTheOthersNothing) {
  for (const ResetLevel from : {ResetLevel::Stream, ResetLevel::Queue}) {
    SCOPED_TRACE(name(from));
    Rig rig({}, impatient());
    FlexStream& reset = rig.runtime.next_stream(StreamPriority::Low);
    const auto memory = rig.allocate(1 * kMiB);
    std::vector<std::byte> data(512 * wire::kKiB, std::byte{5}), back(data.size());
    Ends ends;
    {
      HeldReset held(rig, reset);
      for (int i = 0; i < 100; ++i) rig.stream.Launch(Job::fill(memory, 128, 1), {}, {.observer = &ends});
      rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.observer = &ends});
      rig.stream.Launch(Job::from_device(back.data(), memory, back.size()), {}, {.observer = &ends});
      if (from == ResetLevel::Queue) {
        try {
          rig.runtime.recover(from);
          ADD_FAILURE() << "the queues were reset beside the reset of a stream";
        } catch (const Error& error) {
          EXPECT_TRUE(error.info().recoverable) << error.what();
          EXPECT_NE(error.info().message.find("is being reset already"), std::string::npos) << error.what();
        }
      } else {
        EXPECT_EQ(rig.runtime.recover(from).level(), from) << "nothing to repair";
      }
    }
    EXPECT_NO_THROW(rig.stream.Synchronize(in_time()));
    EXPECT_EQ(ends.with(Outcome::Ok), 102u);
    EXPECT_TRUE(back == data);
    EXPECT_NO_THROW(rig.runtime.allocator().resolve(memory)) << "the function was reset";
    EXPECT_TRUE(rig.raised.empty());
  }
}

TEST(Recovery, AQueueResetWaitsForTheResetOfAStream) {
  Rig rig;
  FlexStream& reset = rig.runtime.next_stream(StreamPriority::Low);
  const auto memory = rig.allocate(1 * kMiB);
  std::optional<HeldReset> held(std::in_place, rig, reset);
  std::atomic<bool> over{false};
  std::thread recovers([&] {
    EXPECT_EQ(rig.runtime.recover(ResetLevel::Queue).level(), ResetLevel::Queue);
    over = true;
  });
  // The stream before it is paused by the queue reset, which then waits.
  while (launchable(rig.stream) && !over) std::this_thread::yield();  // bounded: recover() pauses it, or returns
  held.reset();
  recovers.join();  // bounded: the reset that it waits for has ended
  EXPECT_NO_THROW(rig.runtime.allocator().resolve(memory)) << "the function was reset";
  for (FlexStream* stream : {&rig.stream, &reset}) {
    stream->Launch(Job::fill(memory, 128, 1), {});
    EXPECT_NO_THROW(stream->Synchronize(in_time()));
  }
}

TEST(Recovery, AWaiterIsToldOfWhatAResetEndsOnTheHostWithoutATimer) {
  for (const bool queues : {false, true}) {
    SCOPED_TRACE(queues ? "queue reset" : "stream reset");
    DeviceOptions options;
    options.faults.no_timers = options.faults.no_spinning = true;
    test::NativeCard card{{.window_bytes = 32 * kMiB}};
    Runtime runtime(card.attach(1, std::move(options)), Rig::options({}));
    FlexStream& stream = runtime.default_stream();
    const auto memory = runtime.allocator().allocate(1 * kMiB);
    for (int round = 0; round < 10; ++round) {
      card.pause();
      // More than the card takes: the rest ends on the host.
      for (int i = 0; i < 300; ++i) stream.Launch(Job::fill(memory, 128, 1), {});
      const std::uint64_t sleeps = runtime.device().statistics().sleeps;
      std::thread waiter([&] {
        try {
          stream.Synchronize(in_time());
        } catch (const TimeoutError& error) {
          ADD_FAILURE() << error.what();
        } catch (const StreamError&) {
        }
      });
      // bounded: the waiter finds nothing, and sleeps
      while (runtime.device().statistics().sleeps == sleeps) std::this_thread::yield();
      std::thread resets([&] { queues ? (void)runtime.recover(ResetLevel::Queue) : stream.Reset(); });
      // bounded: the reset pauses the stream before it asks the card
      while (launchable(stream)) std::this_thread::yield();
      card.resume();
      resets.join();  // bounded: the card answers
      waiter.join();  // bounded: it waits until in_time() at most
      ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
    }
  }
}

TEST(Recovery, StreamsMayBeOpenedDuringRecoveries) {
  Rig rig;
  std::thread opens([&] {
    for (unsigned id = 1; id <= 2 * Runtime::kStreamsPerPool; ++id) rig.runtime.stream(id);
  });
  for (int round = 0; round < 100; ++round) EXPECT_EQ(rig.runtime.recover().level(), ResetLevel::Stream);
  opens.join();  // bounded: admin calls have Timeouts::admin
}

// The device may be used directly, beside the runtime.
TEST(Recovery, AStreamWhoseDeviceRefusesForAResetGoesOnAfterIt) {
  DeviceOptions options;
  options.faults.no_timers = true;  // nobody finds by chance what nobody was told
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  Runtime runtime(card.attach(1, std::move(options)), Rig::options({}));
  FlexStream& stream = runtime.default_stream();
  const auto memory = runtime.allocator().allocate(1 * kMiB);
  for (int round = 0; round < 20; ++round) {
    card.pause();
    std::thread resets(
        [&] { EXPECT_TRUE(round % 2 == 0 ? runtime.device().reset_stream(0) : runtime.device().reset_queues()); });
    // bounded: the reset refuses submissions before it asks the card
    while (runtime.device().submit(0, {})) std::this_thread::yield();
    Ends ends;
    for (int i = 0; i < 10; ++i) stream.Launch(Job::fill(memory, 128, 1), {}, {.observer = &ends});
    card.resume();
    resets.join();  // bounded: the card answers
    ASSERT_NO_THROW(stream.Synchronize(in_time())) << round;
    EXPECT_EQ(ends.with(Outcome::Ok), 10u);
  }
}

// ---- states ---------------------------------------------------------------------------------------------------------

using States = std::vector<std::string_view>;

// What a machine has changed to since the log had `noted` changes.
States changed_to(std::string_view machine, std::uint64_t noted) {
  const auto changes = ras::StateLog::process().changes();
  const std::size_t added = std::min<std::size_t>(changes.size(), ras::StateLog::process().noted() - noted);
  States states;
  for (std::size_t at = changes.size() - added; at < changes.size(); ++at) {
    if (changes[at].machine == machine) states.push_back(changes[at].to);
  }
  return states;
}

TEST(Recovery, TheLogOfStatesHasEveryStepOfEachLevel) {
  struct Steps {
    ResetLevel level;
    States recovery;
    States activity;
  };
  const Steps expected[] = {
      {ResetLevel::Stream, {"resetting streams", "idle"}, {"resetting", "open"}},
      {ResetLevel::Queue, {"resetting queues", "idle"}, {"queue reset", "open"}},
      {ResetLevel::Function,
       {"quiescing", "ending launches", "opening device", "adopting device", "idle"},
       {"quiescing", "recovering", "open"}},
      {ResetLevel::Card,
       {"quiescing", "ending launches", "raising level", "opening device", "adopting device", "idle"},
       {"quiescing", "recovering", "open"}}};
  Rig rig;
  for (const Steps& steps : expected) {
    SCOPED_TRACE(name(steps.level));
    const std::uint64_t noted = ras::StateLog::process().noted();
    rig.launch_source(rig.stream);
    EXPECT_THROW(rig.stream.Synchronize(in_time()), StreamError);
    rig.runtime.recover(steps.level);
    EXPECT_EQ(changed_to("recovery", noted), steps.recovery);
    EXPECT_EQ(changed_to("stream activity", noted), steps.activity);
    EXPECT_EQ(changed_to("stream condition", noted), (States{"poisoned", "usable"}));
  }
}

TEST(Recovery, WithThePolicyRecoverTheLogSaysWhoNeedsWhat) {
  Rig rig({.policy = RecoveryPolicy::Recover});
  const std::uint64_t noted = ras::StateLog::process().noted();
  rig.launch_source(rig.stream);
  EXPECT_THROW(rig.stream.Synchronize(in_time()), StreamError);
  EXPECT_EQ(changed_to("stream condition", noted), (States{"poisoned", "needs reset", "usable"}));
  EXPECT_EQ(changed_to("stream activity", noted), (States{"retrying", "open"}));
  EXPECT_EQ(changed_to("recovery", noted), (States{"resetting streams", "idle"}));
}

// ---- policies -------------------------------------------------------------------------------------------------------

TEST(Recovery, ThePolicyRecoverSendsWhatNeverStartedAgainInOrder) {
  Rig rig({.policy = RecoveryPolicy::Recover});
  const auto memory = rig.allocate(1 * kMiB);
  Ends ends;
  std::vector<std::byte> back(128), pageable(300 * wire::kKiB, std::byte{9}), there(pageable.size());
  rig.launch_source(rig.stream);
  for (std::uint64_t i = 1; i <= 5; ++i) rig.stream.Launch(Job::fill(memory, 128, i), {}, {.observer = &ends});
  rig.stream.Launch(Job::from_device(back.data(), memory, back.size()), {}, {.observer = &ends});
  rig.stream.Launch(Job::to_device(pageable.data(), memory, pageable.size()), {}, {.observer = &ends});
  rig.stream.Launch(Job::from_device(there.data(), memory, there.size()), {}, {.observer = &ends});
  try {
    rig.stream.Synchronize(in_time());
    ADD_FAILURE() << "the source's error was swallowed";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().outcome, Outcome::Rejected) << error.what();
  }
  EXPECT_EQ(ends.launches(), 8u);
  EXPECT_EQ(ends.with(Outcome::Ok), 8u);
  EXPECT_TRUE(ends.each_once());
  std::uint64_t last = 0;
  std::memcpy(&last, back.data(), sizeof last);
  EXPECT_EQ(last, 5u) << "out of order";
  EXPECT_TRUE(there == pageable);
  EXPECT_NO_THROW(rig.stream.Synchronize(in_time())) << "told twice";
}

TEST(Recovery, WhatIsKeptForARetryEndsAbortedWhenItsOwnerResetsTheStream) {
  Rig rig({.policy = RecoveryPolicy::Recover});
  const auto memory = rig.allocate(1 * kMiB);
  Ends ends;
  rig.launch_source(rig.stream);
  for (int i = 0; i < 5; ++i) rig.stream.Launch(Job::fill(memory, 128, 1), {}, {.observer = &ends});
  rig.stream.Reset();
  EXPECT_EQ(ends.launches(), 5u);
  EXPECT_TRUE(ends.each_once());
  EXPECT_NO_THROW(rig.stream.Synchronize(in_time()));
}

TEST(Recovery, ThePolicyFailFastStopsAllStreamsUntilRecover) {
  Rig rig({.policy = RecoveryPolicy::FailFast});
  const auto memory = rig.allocate(1 * kMiB);
  FlexStream& bystander = rig.runtime.next_stream(StreamPriority::Low);
  rig.launch_source(rig.stream);
  EXPECT_THROW(rig.stream.Synchronize(in_time()), StreamError);
  EXPECT_THROW(bystander.Launch(Job::fill(memory, 128, 1), {}), StreamError);
  EXPECT_EQ(rig.runtime.recover().level(), ResetLevel::Stream);
  bystander.Launch(Job::fill(memory, 128, 1), {});
  EXPECT_NO_THROW(bystander.Synchronize(in_time()));
}

}  // namespace
}  // namespace svp
