// SPDX-License-Identifier: Apache-2.0
// FlexStream, Scheduler and staging against the real firmware core on a thread. COMPUTE is refused there; that, too, is
// used.
#include "host_driver/runtime/flex_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "host_driver/ras/log.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
constexpr std::uint64_t kMiB = wire::kMiB;

struct Rig {
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  Runtime runtime{card.attach(), options()};
  FlexStream& stream = runtime.default_stream();

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * kMiB, 16 * kMiB};
    options.staging.chunk_bytes = 64 * wire::kKiB;  // so that small tests stage in many chunks
    return options;
  }
  void synchronize(FlexStream& on) { on.Synchronize(Clock::now() + test_bounds::kWork); }
  void synchronize() { synchronize(stream); }
  AllocationIndex allocate(std::uint64_t bytes) { return runtime.allocator().allocate(bytes); }
};

std::vector<std::byte> random_bytes(std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(bytes);
  std::generate(data.begin(), data.end(), [&] { return static_cast<std::byte>(random()); });
  return data;
}

class Records final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override { blocks.push_back(record); }
  void on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept override {
    ended.push_back(launch);
    last = outcome;
  }
  std::vector<BlockRecord> blocks;  // read after Synchronize only
  std::vector<std::uint64_t> ended;
  wire::Outcome last = wire::Outcome::Ok;
};

TEST(FlexStream, EverySizeComesBackPageableAndPinned) {
  Rig rig;
  const auto memory = rig.allocate(4 * kMiB);
  for (const std::size_t bytes : {1u, 2u, 127u, 128u, 129u, 64u * 128, 65536u, 65537u, 131072u, 1000003u, 3u << 20}) {
    const auto data = random_bytes(bytes, static_cast<unsigned>(bytes));
    std::vector<std::byte> back(bytes);
    rig.stream.Launch(Job::to_device(data.data(), memory, bytes), {});
    rig.stream.Launch(Job::from_device(back.data(), memory, bytes), {});
    rig.synchronize();
    EXPECT_EQ(back, data) << bytes;
    PinnedBuffer pinned = rig.runtime.host_memory().allocate(bytes);
    rig.stream.Launch(Job::from_device(pinned.data(), memory, bytes), {});
    rig.synchronize();
    EXPECT_EQ(std::memcmp(pinned.data(), data.data(), bytes), 0) << bytes;
  }
}

TEST(FlexStream, CorrectionSlotsStandAtTheStartOfSegment7) {
  Rig rig;
  const LaunchSite zero = rig.runtime.launch_site(0);
  const LaunchSite five = rig.runtime.launch_site(5);
  EXPECT_EQ(zero.correction_slot.address.offset, 0u);
  EXPECT_EQ(five.correction_slot.address.offset, 5 * Runtime::kCorrectionSlotBytes);
}

TEST(FlexStream, StagedTransfersKeepTheirPlaceInTheStream) {
  Rig rig;
  const std::size_t bytes = 700'000;
  const auto memory = rig.allocate(bytes);
  const auto first = random_bytes(bytes, 1);
  const auto second = random_bytes(bytes, 2);
  std::vector<std::byte> back_first(bytes);
  std::vector<std::byte> back_second(bytes);
  std::vector<std::byte> again(bytes);
  rig.stream.Launch(Job::to_device(first.data(), memory, bytes), {});
  rig.stream.Launch(Job::from_device(back_first.data(), memory, bytes), {});
  rig.stream.Launch(Job::to_device(second.data(), memory, bytes), {});
  rig.stream.Launch(Job::from_device(back_second.data(), memory, bytes), {});
  rig.stream.Launch(Job::to_device(back_first.data(), memory, bytes), {});  // reads what is being written above
  rig.stream.Launch(Job::from_device(again.data(), memory, bytes), {});
  rig.synchronize();
  EXPECT_EQ(back_first, first);
  EXPECT_EQ(back_second, second);
  EXPECT_EQ(again, first);
}

TEST(FlexStream, MoreBlocksThanCreditsWaitAndRunInOrder) {
  Rig rig;
  const auto memory = rig.allocate(128);
  Records records;
  rig.card.pause();
  const int count = 1000;
  for (int i = 0; i < count; ++i) {
    rig.stream.Launch(Job::fill(memory, 8, static_cast<std::uint64_t>(i)), {}, {.observer = &records});
  }
  EXPECT_FALSE(rig.stream.Query());
  EXPECT_THROW(rig.stream.Synchronize(Clock::now() + test_bounds::kExpires), TimeoutError);
  rig.card.resume();
  std::uint64_t last = 0;
  rig.stream.Launch(Job::from_device(&last, memory, sizeof last), {});
  rig.synchronize();
  EXPECT_EQ(last, static_cast<std::uint64_t>(count - 1));
  ASSERT_EQ(records.ended.size(), static_cast<std::size_t>(count));
  EXPECT_TRUE(std::is_sorted(records.ended.begin(), records.ended.end()));
  for (std::size_t i = 0; i < records.blocks.size(); ++i) EXPECT_EQ(records.blocks[i].sequence, i + 1);
  EXPECT_TRUE(rig.stream.Query());
}

TEST(FlexStream, ABlockedCardNeverBlocksLaunch) {
  Rig rig;
  const auto memory = rig.allocate(16 * kMiB);
  const auto data = random_bytes(16 * kMiB, 3);
  rig.card.pause();
  rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {});
  for (int i = 0; i < 300; ++i) rig.stream.Launch(Job::fill(memory, 128, 7, 128), {});
  EXPECT_FALSE(rig.stream.Query()) << "all launched, and the card has done nothing yet";
  rig.card.resume();
  std::vector<std::byte> back(data.size());
  rig.stream.Launch(Job::from_device(back.data(), memory, back.size()), {});
  rig.synchronize();
  EXPECT_EQ(std::memcmp(back.data() + 256, data.data() + 256, data.size() - 256), 0);
}

TEST(FlexStream, StreamsStageAtTheSameTimeFromManyThreads) {
  Rig rig;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&rig, t] {
      FlexStream& stream = rig.runtime.stream(t);
      const std::size_t bytes = 500'000 + t;
      const auto memory = rig.allocate(bytes);
      for (unsigned round = 0; round < 4; ++round) {
        const auto data = random_bytes(bytes, t * 10 + round);
        std::vector<std::byte> back(bytes);
        stream.Launch(Job::to_device(data.data(), memory, bytes), {});
        stream.Launch(Job::from_device(back.data(), memory, bytes), {});
        rig.synchronize(stream);
        EXPECT_EQ(back, data);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each launches a number of jobs and waits with a bound
}

TEST(FlexStream, APlanOfSeveralStepsRunsInOrder) {
  Rig rig;
  const auto source = rig.allocate(4096);
  const auto destination = rig.allocate(4096);
  std::vector<std::uint64_t> back(512);
  const Job job(JobPlan({Fill{.allocation_index = source, .size = 4096, .pattern = 0x1122334455667788},
                         DMA{.allocation_index = destination,
                             .size = 4096,
                             .direction = Direction::DeviceToDevice,
                             .source_allocation_index = source},
                         DMA{.host_address = back.data(),
                             .allocation_index = destination,
                             .size = 4096,
                             .direction = Direction::FromDevice}}));
  Records records;
  rig.stream.Launch(job, {}, {.observer = &records});
  rig.synchronize();
  EXPECT_EQ(back, std::vector<std::uint64_t>(512, 0x1122334455667788));
  ASSERT_EQ(records.blocks.size(), 3u);
  EXPECT_EQ(records.blocks[0].opcode, wire::Opcode::Fill);
  EXPECT_EQ(records.blocks[2].bytes, 4096u);
}

// ---- errors ---------------------------------------------------------------------------------------------------------

struct ComputeRig : Rig {
  CompiledKernel compiled{test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}}};
  ExecutionPlan plan{{Job(compiled)}};
  std::uint64_t bytes = 64 * 64 * 2;
  AllocationIndex a = allocate(4 * bytes);
  AllocationIndex b = allocate(bytes);
  AllocationIndex c = allocate(4 * bytes);

  ComputeRig() { plan.load(runtime, stream); }
  std::vector<Argument> arguments(std::int64_t rows = 64) const {
    return {{.allocation = a, .shape = {rows, 64}},
            {.allocation = b, .shape = {64, 64}},
            {.allocation = c, .shape = {rows, 64}}};
  }
  std::string refused(std::vector<Argument> arguments) {
    try {
      stream.Launch(plan.jobs()[0], arguments);
    } catch (const InvalidArgument& error) {
      return error.field();
    }
    return "accepted";
  }
};

TEST(FlexStream, ATiledLaunchIsTwoBlocksPerTileInOrder) {
  ComputeRig rig;
  Records records;
  rig.stream.Launch(rig.plan.jobs()[0], rig.arguments(256), {.observer = &records});
  EXPECT_THROW(rig.synchronize(), StreamError);
  ASSERT_EQ(records.blocks.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(records.blocks[i].opcode, i % 2 == 0 ? wire::Opcode::Dma : wire::Opcode::Compute);
    EXPECT_EQ(records.blocks[i].tile, i / 2);
  }
  EXPECT_EQ(records.blocks[0].outcome, wire::Outcome::Ok);
  EXPECT_EQ(records.blocks[1].outcome, wire::Outcome::Rejected);  // no cores in the native build
  EXPECT_EQ(records.blocks[2].outcome, wire::Outcome::Aborted);
}

TEST(FlexStream, TheFirstErrorWinsAndPoisonsUntilReset) {
  ComputeRig rig;
  const auto job = rig.plan.jobs()[0];
  rig.card.pause();  // or the second launch could already find the stream poisoned
  rig.stream.Launch(job, rig.arguments());
  rig.stream.Launch(job, rig.arguments());
  rig.card.resume();
  for (int i = 0; i < 3; ++i) {
    try {
      rig.synchronize();
      FAIL();
    } catch (const StreamError& error) {
      EXPECT_EQ(error.failure().launch, 2u) << "the first was the load of the binary";
      EXPECT_EQ(error.failure().job, "matmul");
      EXPECT_EQ(error.failure().step, 2u);
      EXPECT_EQ(error.failure().outcome, wire::Outcome::Rejected);
      EXPECT_EQ(error.failure().status, wire::Status::Unsupported);
      EXPECT_TRUE(error.info().recoverable);
    }
  }
  EXPECT_THROW(rig.stream.Launch(Job::fill(rig.a, 8, 0), {}), StreamError);
  rig.stream.Reset();
  rig.stream.Launch(Job::fill(rig.a, 8, 0), {});
  EXPECT_NO_THROW(rig.synchronize());
}

TEST(FlexStream, TheFirstErrorOfAStreamIsRecordedOnce) {
  ComputeRig rig;
  std::vector<ras::Record> records;
  ras::Log::process().set_sink([&](const ras::Record& record) { records.push_back(record); });
  rig.stream.Launch(rig.plan.jobs()[0], rig.arguments());
  for (int i = 0; i < 3; ++i) EXPECT_THROW(rig.synchronize(), StreamError);
  ras::Log::process().set_sink({});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(ras::to_string(records[0].code), "SPYRE-R103");
  EXPECT_EQ(records[0].error.status, wire::Status::Unsupported);
  EXPECT_EQ(records[0].where.stream, 0u);
  EXPECT_EQ(records[0].where.launch, 2u) << "the first was the load of the binary";
  EXPECT_EQ(records[0].where.function, "PF");
}

TEST(FlexStream, AnErrorStaysInItsStream) {
  ComputeRig rig;
  FlexStream& other = rig.runtime.next_stream(StreamPriority::High);
  EXPECT_EQ(&rig.runtime.stream(33), &other);
  rig.stream.Launch(rig.plan.jobs()[0], rig.arguments());
  other.Launch(Job::fill(rig.b, 128, 1), {});
  EXPECT_THROW(rig.synchronize(), StreamError);
  EXPECT_NO_THROW(rig.synchronize(other));
}

TEST(FlexStream, EveryArgumentIsCheckedAndNamed) {
  ComputeRig rig;
  rig.synchronize();
  const auto good = rig.arguments();
  const auto with = [&](std::size_t index, auto&& change) {
    auto arguments = good;
    change(arguments[index]);
    return rig.refused(arguments);
  };
  EXPECT_EQ(rig.refused({good.begin(), good.begin() + 2}), "arguments");
  EXPECT_EQ(with(0, [](Argument& x) { x.dtype = DeviceType::Fp32; }), "operand a");
  EXPECT_EQ(with(1, [](Argument& x) { x.shape = {64, 0}; }), "operand b");
  EXPECT_EQ(with(1, [](Argument& x) { x.shape = {64}; }), "operand b");
  EXPECT_EQ(with(1, [](Argument& x) { x.offset = 64; }), "operand b");
  EXPECT_EQ(with(1, [](Argument& x) { x.offset = 128; }), "operand b") << "allocation too small";
  EXPECT_EQ(with(0, [](Argument& x) { x.shape = {std::int64_t{1} << 40, 64}; }), "operand a");
  EXPECT_EQ(with(2, [&](Argument& x) { x.allocation = good[0].allocation; }), "operand c") << "output over input";
  EXPECT_EQ(rig.stream.error(), std::nullopt) << "nothing was enqueued";
}

TEST(FlexStream, ATransferBeyondItsAllocationIsRefused) {
  Rig rig;
  const auto memory = rig.allocate(256);
  char host[512];
  EXPECT_THROW(rig.stream.Launch(Job::to_device(host, memory, 257), {}), InvalidArgument);
  EXPECT_THROW(rig.stream.Launch(Job::to_device(host, memory, 129, 128), {}), InvalidArgument);
  EXPECT_NO_THROW(rig.stream.Launch(Job::to_device(host, memory, 128, 128), {}));
  rig.synchronize();
}

TEST(FlexStream, AJobThatIsNotLoadedIsRefused) {
  ComputeRig rig;
  EXPECT_THROW(rig.stream.Launch(Job(rig.compiled), rig.arguments()), InvalidArgument);
}

TEST(FlexStream, ThrowingHostOperationsEnqueueNothing) {
  ComputeRig rig;
  rig.synchronize();
  const JobPlan plan({HostOperation{[](const HostOperationInput&, std::span<std::byte>) -> std::size_t {
                        throw std::runtime_error("no");
                      }},
                      CorrectionDMA{}, DeviceCompute{.expected_input_shapes = {{64, 64}, {64, 64}, {64, 64}}}});
  Job job(rig.compiled.kernel(), ProgramCorrectionMetadata::of(*rig.compiled.kernel()), plan);
  job.set_program(rig.plan.jobs()[0].program());
  EXPECT_THROW(rig.stream.Launch(job, rig.arguments()), std::runtime_error);
  EXPECT_TRUE(rig.stream.Query());
}

TEST(FlexStream, ResetEndsWhatWaitsAndWhatIsStaged) {
  Rig rig;
  const auto memory = rig.allocate(8 * kMiB);
  const auto data = random_bytes(8 * kMiB, 9);
  for (int round = 0; round < 10; ++round) {
    Records records;
    rig.stream.Launch(Job::fill(memory, 128, 1), {}, {.observer = &records});
    rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.observer = &records});
    rig.stream.Launch(Job::fill(memory, 128, 1), {}, {.observer = &records});
    // bounded: the moment is what the test varies
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    rig.stream.Reset();
    EXPECT_TRUE(rig.stream.Query());
    EXPECT_EQ(records.blocks.size(), 3u) << "each ended once";
    EXPECT_EQ(records.ended.size(), 3u);
    rig.synchronize();
  }
  std::vector<std::byte> back(data.size());
  rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {});
  rig.stream.Launch(Job::from_device(back.data(), memory, back.size()), {});
  rig.synchronize();
  EXPECT_EQ(back, data);
}

TEST(FlexStream, ADyingCardEndsEveryLaunchOnce) {
  Rig rig;
  const auto memory = rig.allocate(16 * kMiB);
  const auto data = random_bytes(16 * kMiB, 4);
  Records records;
  rig.stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.observer = &records});
  for (int i = 0; i < 300; ++i) rig.stream.Launch(Job::fill(memory, 128, 7), {}, {.observer = &records});
  rig.card.die();
  try {
    rig.synchronize();
    FAIL() << "nothing was lost";
  } catch (const StreamError& error) {
    EXPECT_FALSE(error.info().recoverable) << error.what();
  }
  EXPECT_EQ(records.blocks.size(), 301u);
  EXPECT_EQ(records.ended.size(), 301u);
  EXPECT_THROW(rig.stream.Launch(Job::fill(memory, 128, 7), {}), StreamError);
}

TEST(FlexStream, APlanIsLoadedAgainIntoTheSamePlace) {
  ComputeRig rig;
  const auto before = rig.plan.jobs()[0].allocation_index();
  EXPECT_NE(before, AllocationIndex::Null);
  rig.plan.load(rig.runtime, rig.stream);
  rig.synchronize();
  EXPECT_EQ(rig.plan.jobs()[0].allocation_index(), before);
  std::vector<std::byte> image(rig.compiled.kernel()->image().size());
  rig.stream.Launch(Job::from_device(image.data(), before, image.size()), {});
  rig.synchronize();
  EXPECT_TRUE(std::equal(image.begin(), image.end(), rig.compiled.kernel()->image().begin()));
}

// What a launch kept alive: its destructor uses the stream that it was launched on, as any code of a user may.
class Curious {
 public:
  Curious(FlexStream& stream, AllocationIndex memory, std::atomic<int>& gone)
      : stream_(stream), memory_(memory), gone_(gone) {}
  ~Curious() {
    try {
      (void)stream_.error();
      (void)stream_.Query();
      stream_.Launch(Job::fill(memory_, 128, 1), {});
      stream_.Synchronize(Clock::now() + test_bounds::kWork);
    } catch (const Error&) {
    }
    ++gone_;
  }

 private:
  FlexStream& stream_;
  AllocationIndex memory_;
  std::atomic<int>& gone_;
};

TEST(FlexStream, DestructorsOfWhatLaunchesKeptAliveRunUnderNoLock) {
  Rig rig;
  const auto memory = rig.allocate(1 * kMiB);
  std::vector<std::byte> pageable(300 * wire::kKiB);
  std::atomic<int> gone{0};
  const auto launch = [&](const Job& job) {
    rig.stream.Launch(job, {}, {.keep_alive = std::make_shared<Curious>(rig.stream, memory, gone)});
  };
  const auto launch_all = [&] {
    launch(Job::fill(memory, 128, 1));
    launch(Job::to_device(pageable.data(), memory, pageable.size()));
    launch(Job::from_device(pageable.data(), memory, pageable.size()));
    launch(Job(JobPlan()));
  };
  int expected = 0;
  launch_all();
  rig.synchronize();
  EXPECT_EQ(gone, expected += 4) << "gone when Synchronize() returns";
  // Nobody waits: the driver's own thread lets go.
  launch(Job::fill(memory, 128, 1));
  const auto end = Clock::now() + test_bounds::kWork;
  ++expected;
  while (gone != expected && Clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(gone, expected);
  rig.card.pause();
  launch_all();
  std::thread resumes([&] { rig.card.resume(); });
  rig.stream.Reset();
  resumes.join();  // bounded: it resumes the card once
  rig.synchronize();
  EXPECT_EQ(gone, expected += 4) << "after a reset";
  EXPECT_THROW(launch(Job::fill(memory, 2 * kMiB, 1)), InvalidArgument);
  EXPECT_EQ(gone, expected += 1) << "after a launch that was refused";
}

TEST(FlexStream, MemoryThatIsReleasedWithWorkUnderWayIsNobodyElsesBefore) {
  Rig rig;
  const std::uint64_t bytes = 256 * wire::kKiB;
  std::vector<std::byte> pageable(bytes);
  PinnedBuffer pinned = rig.runtime.host_memory().allocate(bytes);
  const CompiledKernel kernel(test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}});
  ExecutionPlan plan({Job(kernel)});
  plan.load(rig.runtime, rig.stream);
  rig.synchronize();
  const auto used = [&] { return rig.runtime.allocator().statistics().bytes.current; };
  const auto other = rig.allocate(bytes);
  const auto operands = [](AllocationIndex memory) {
    std::vector<Argument> arguments;
    for (std::uint64_t i = 0; i < 3; ++i) {
      arguments.push_back({.allocation = memory, .shape = {64, 64}, .offset = i * 64 * 128});
    }
    return arguments;
  };
  // The stream's slots of corrections are there from now on, whether the card has kernels or not.
  rig.stream.Launch(plan.jobs()[0], operands(other));
  try {
    rig.synchronize();
  } catch (const StreamError&) {
    rig.stream.Reset();
  }
  rig.synchronize();
  const std::uint64_t before = used();
  const auto check = [&](const char* what, auto&& launch) {
    SCOPED_TRACE(what);
    const auto memory = rig.allocate(bytes);
    const auto place = rig.runtime.allocator().resolve(memory).address;
    rig.card.pause();
    launch(memory);
    rig.runtime.allocator().deallocate(memory);
    // By a thread that launches on no stream, so that nothing is ordered behind the work.
    AllocationIndex next = AllocationIndex::Null;
    std::thread([&] { next = rig.allocate(bytes); }).join();  // bounded: there is room
    EXPECT_NE(rig.runtime.allocator().resolve(next).address, place) << "given out while the card works on it";
    rig.runtime.allocator().deallocate(next);
    rig.card.resume();
    const auto end = Clock::now() + test_bounds::kWork;
    while (used() != before && Clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(used(), before) << "not given back where nobody waits";
    try {
      rig.synchronize();
    } catch (const StreamError&) {
      rig.stream.Reset();
      rig.synchronize();
    }
  };
  check("fill", [&](auto memory) { rig.stream.Launch(Job::fill(memory, bytes, 1), {}); });
  check("pinned in", [&](auto memory) { rig.stream.Launch(Job::to_device(pinned.data(), memory, bytes), {}); });
  check("staged in", [&](auto memory) { rig.stream.Launch(Job::to_device(pageable.data(), memory, bytes), {}); });
  check("staged out", [&](auto memory) { rig.stream.Launch(Job::from_device(pageable.data(), memory, bytes), {}); });
  check("inside", [&](auto memory) {
    rig.stream.Launch(Job(JobPlan({DMA{.allocation_index = other,
                                       .size = bytes,
                                       .direction = Direction::DeviceToDevice,
                                       .source_allocation_index = memory}})),
                      {});
  });
  check("operand", [&](auto memory) { rig.stream.Launch(plan.jobs()[0], operands(memory)); });
}

TEST(FlexStream, AGroupOfLaunchesIsEnqueuedAsAWholeOrNotAtAll) {
  Rig rig;
  const auto memory = rig.allocate(4096);
  Records records;
  const Job good = Job::fill(memory, 4096, 7);
  const Job bad = Job::fill(memory, 8192, 7);
  const LaunchOptions watched{.observer = &records};
  const std::vector<LaunchRequest> broken{{&good, {}, watched}, {&good, {}, watched}, {&bad, {}, watched}};
  EXPECT_THROW(rig.stream.Launch(broken), InvalidArgument);
  rig.synchronize();
  EXPECT_TRUE(records.ended.empty()) << "a part of it was launched";
  const std::vector<LaunchRequest> whole{{&good, {}, watched}, {&good, {}, watched}};
  const std::uint64_t last = rig.stream.Launch(whole);
  rig.synchronize();
  EXPECT_EQ(records.ended, (std::vector<std::uint64_t>{last - 1, last}));
}

TEST(FlexStream, ObserversOfWhatNeverLeftTheHostAreToldAtTearDown) {
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  const auto data = random_bytes(1 * kMiB, 9);
  for (unsigned round = 0; round < 40; ++round) {
    std::vector<std::byte> back(data.size());
    Records first, second;
    {
      DeviceOptions options;
      options.timeouts.detach = test_bounds::kExpires;  // reached: in the first round the card is paused
      Runtime runtime(card.attach(1, std::move(options)), Rig::options());
      const auto memory = runtime.allocator().allocate(1 * kMiB);
      FlexStream& stream = runtime.default_stream();
      FlexStream& queued = runtime.stream(1);
      if (round == 0) card.pause();  // the first stream has all chunks then, nothing of the second has left the host
      for (int i = 0; i < 3; ++i) {
        stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.observer = &first});
        queued.Launch(Job::from_device(back.data(), memory, back.size()), {}, {.observer = &second});
      }
      for (unsigned i = 0; i < round * 20; ++i) std::this_thread::yield();
    }
    if (round == 0) card.resume();
    EXPECT_EQ(first.ended, (std::vector<std::uint64_t>{1, 2, 3})) << "round " << round;
    EXPECT_EQ(second.ended, (std::vector<std::uint64_t>{1, 2, 3})) << "round " << round;
  }
}

std::set<std::string> threads() {
  std::set<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) found.insert(task.path().string());
  return found;
}

TEST(FlexStream, NoThreadOfTheDriverTakesSignalsOfTheProgram) {
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  const std::set<std::string> before = threads();
  Runtime runtime(card.attach(), Rig::options());
  std::size_t seen = 0;
  for (const std::string& thread : threads()) {
    if (before.contains(thread)) continue;
    ++seen;
    std::ifstream status(thread + "/status");
    std::string line;
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {  // bounded: by the lines of the file
    }
    const std::uint64_t blocked = std::stoull(line.substr(line.find_first_of("0123456789abcdef", 7)), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF}) {
      EXPECT_NE(blocked >> (signal - 1) & 1, 0u) << "signal " << signal << " runs a handler on " << thread;
    }
  }
  EXPECT_GE(seen, 2u) << "the event loop and the staging worker";
}

TEST(FlexStream, TheThirtyThirdStreamIsTheFirstOfItsPoolAgain) {
  Rig rig;
  const auto memory = rig.allocate(128);
  for (const StreamPriority priority : {StreamPriority::Low, StreamPriority::High}) {
    std::vector<FlexStream*> streams;
    for (unsigned i = 0; i < 2 * Runtime::kStreamsPerPool; ++i) {
      streams.push_back(&rig.runtime.next_stream(priority));
      streams.back()->Launch(Job::fill(memory, 8, i), {});
    }
    for (unsigned i = 0; i < Runtime::kStreamsPerPool; ++i) {
      EXPECT_EQ(streams[i], streams[i + Runtime::kStreamsPerPool]) << i;
      EXPECT_NE(streams[i], &rig.stream) << "the default stream is in no pool";
      for (unsigned other = 0; other < i; ++other)
        EXPECT_NE(streams[i]->stream_index(), streams[other]->stream_index());
      rig.synchronize(*streams[i]);
    }
    // One that shares a stream shares its errors, too.
    EXPECT_EQ(streams[0]->stream_index(), streams[Runtime::kStreamsPerPool]->stream_index());
  }
}

TEST(FlexStream, ARuntimeGoesAwayWithWorkInFlight) {
  auto rig = std::make_unique<Rig>();
  const auto memory = rig->allocate(8 * kMiB);
  const auto data = random_bytes(8 * kMiB, 5);
  auto token = std::make_shared<int>(1);
  rig->stream.Launch(Job::to_device(data.data(), memory, data.size()), {}, {.keep_alive = token});
  rig.reset();
  EXPECT_EQ(token.use_count(), 1) << "the launch let go";
}

}  // namespace
}  // namespace svp
