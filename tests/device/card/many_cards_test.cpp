// SPDX-License-Identifier: Apache-2.0
// Cards come and go: one after the other, two at once, after good ends and bad ones; each leaves nothing behind.
#include <filesystem>
#include <thread>

#include "tests/device/card/card_support.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::Workbench;
using wire::Outcome;

void expect_works(Device& device, std::uint64_t pattern) {
  Workbench bench(device);
  ASSERT_EQ(bench.run(Workbench::fill(bench.tensor(0), 4096, pattern)).outcome, Outcome::Ok);
  ASSERT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.host(0), 4096)).outcome, Outcome::Ok);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(device.host_memory().data()), pattern);
}

TEST(ManyCards, OneAfterTheOtherLeaveNothing) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    const test::NothingIsLeft nothing;
    const auto card = test::boot();
    const auto physical = value_or_throw(card->open_physical());
    const auto virtual_one = value_or_throw(card->open_virtual(1));
    expect_works(*physical, i);
    expect_works(*virtual_one, ~i);
  }
}

TEST(ManyCards, TwoAtOnceDoNotKnowOfEachOther) {
  const test::NothingIsLeft nothing;
  const auto first = test::boot();
  const auto second = test::boot();
  const auto left = value_or_throw(first->open_physical());
  auto right = value_or_throw(second->open_physical());
  std::thread beside([&] {
    for (std::uint64_t i = 0; i < 20; ++i) {
      test::CompletionRecorder recorder;
      const auto block = test::Blocks::nop(i);
      const ControlBlockRequest request{&block, &recorder};
      ASSERT_EQ(value_or_throw(left->submit(0, {&request, 1})), 1u);
      ASSERT_EQ(left->wait_until([&] { return recorder.ended() == 1; }, test::soon()), WaitStatus::Done);
      ASSERT_EQ(recorder.all()[0].outcome, Outcome::Ok);
    }
  });
  expect_works(*right, 2);
  beside.join();  // bounded: a boot, bounded by Timeouts
  // The death of one is the other's business no more than its boot.
  ASSERT_TRUE(second->machine().kill());
  EXPECT_EQ(right->wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  expect_works(*left, 3);
  test::expect_healthy(*first, *left);
  right.reset();
}

TEST(ManyCards, DevicesOutliveTheirCard) {
  const test::NothingIsLeft nothing;
  auto card = test::boot();
  const auto device = value_or_throw(card->open_physical());
  card.reset();
  expect_works(*device, 4);
}

TEST(ManyCards, AShutDownCardTellsItsDevices) {
  const test::NothingIsLeft nothing;
  const auto card = test::boot();
  const auto device = value_or_throw(card->open_physical());
  ASSERT_TRUE(card->shutdown());
  EXPECT_EQ(device->wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  EXPECT_TRUE(card->shutdown()) << "a second time is no error";
  ASSERT_TRUE(device->failure());
  EXPECT_EQ(device->health(), Health::Dead);
}

TEST(ManyCards, FailedBootsLeaveNothing) {
  for (int i = 0; i < 3; ++i) {
    const test::NothingIsLeft nothing;
    CardOptions options = test::small_card("nonsense");
    const auto card = Card::boot(options);
    if (card) EXPECT_FALSE((*card)->open_physical());
    options.emulator.program = "no-such-emulator";
    const auto none = Card::boot(options);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().source, "emulator-not-found");
    options.emulator.program = "qemu-system-riscv64";
    options.emulator.extra_arguments = {"-no-such-option"};
    const auto refused = Card::boot(options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().source, "start-failed");
    EXPECT_NE(refused.error().message.find("no-such-option"), std::string::npos) << describe(refused.error());
  }
}

// An emulator that loads no plugins. Without a compute array of its build there is nothing to be refused.
TEST(ManyCards, AnEmulatorThatLoadsNoArrayGetsACardWithoutOne) {
  const test::NothingIsLeft nothing;
  const qemu::test::TemporaryFolder folder;
  const std::string emulator =
      folder.file("emulator",
                  "#!/bin/sh\nfor word; do\n"
                  "  [ \"$word\" != -plugin ] || { : >\"$0.refused\"; echo 'Could not load plugin' >&2; exit 1; }\n"
                  "done\nexec qemu-system-riscv64 \"$@\"\n",
                  true);
  CardOptions options = test::small_card();
  options.emulator.program = emulator;
  options.array = "auto";
  {
    const auto card = value_or_throw(Card::boot(options));
    const auto device = value_or_throw(card->open_physical());
    EXPECT_EQ(device->config().array_version, 0u);
    expect_works(*device, 5);
  }
  EXPECT_EQ(std::filesystem::exists(emulator + ".refused"), !value_or_throw(find_array("auto")).plugin.empty());
  options.array = emulator;
  const auto refused = Card::boot(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "start-failed");
  EXPECT_NE(refused.error().next_step.find("--array off"), std::string::npos) << describe(refused.error());
}

// A stream's number is free again as soon as the card has closed it, before the thread that closed it knows.
TEST(ManyCards, StreamsMayBeOpenedWhileOthersAreClosed) {
  const auto card = test::boot();
  const auto device = value_or_throw(card->open_physical());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        const auto stream = device->open_stream(StreamPriority::Low);
        ASSERT_TRUE(stream) << describe(stream.error());
        const auto closed = device->close_stream(*stream);
        ASSERT_TRUE(closed) << describe(closed.error());
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: boots, each bounded by Timeouts
  test::expect_healthy(*card, *device);
}

// Closing with work in flight: the card says how each block ended, or it is told to forget it.
TEST(ManyCards, ADeviceThatIsClosedUnderLoadEndsEveryBlock) {
  const test::NothingIsLeft nothing;
  const auto card = test::boot();
  for (int round = 0; round < 5; ++round) {
    auto device = value_or_throw(card->open_virtual(1));
    test::CompletionRecorder recorder;
    const auto block = test::Blocks::nop();
    const std::vector<ControlBlockRequest> requests(100, {&block, &recorder});
    const std::size_t accepted = value_or_throw(device->submit(0, requests));
    device.reset();
    EXPECT_EQ(recorder.ended(), accepted);
    for (const auto& end : recorder.all()) {
      EXPECT_TRUE(end.outcome == Outcome::Ok || end.outcome == Outcome::Aborted) << wire::name(end.outcome);
    }
  }
}

}  // namespace
}  // namespace svp
