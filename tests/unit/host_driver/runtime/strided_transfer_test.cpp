// SPDX-License-Identifier: Apache-2.0
// Strided transfers through a runtime, against the real firmware core on a thread: what they move, and what is refused
// before it is sent.
#include "host_driver/runtime/strided_transfer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/tensor/strided_copy.hpp"
#include "tests/bounds.hpp"
#include "tests/support/nest_loops.hpp"
#include "tests/support/random_nests.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
using test::loops_of;
using test::Nest;
constexpr std::uint64_t kMemory = 64 * wire::kKiB;

Nest nest_of(const StridedLoops& loops, std::uint32_t element_bytes) {
  Nest nest{.element_bytes = element_bytes};
  for (std::size_t i = 0; i < loops.size.size(); ++i) {
    nest.levels.push_back({static_cast<std::uint64_t>(loops.size[i]), loops.src_stride[i], loops.dst_stride[i]});
  }
  nest.source = static_cast<std::uint64_t>(loops.src_offset) * element_bytes;
  nest.destination = static_cast<std::uint64_t>(loops.dst_offset) * element_bytes;
  return nest;
}

class StridedTransfers : public testing::TestWithParam<bool> {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    options.checksums = GetParam();
    return options;
  }
  void launch(const StridedTransfer& transfer) {
    stream_.Launch(Job::strided({&transfer, 1}), {});
    stream_.Synchronize(Clock::now() + test_bounds::kWork);
  }
  std::span<std::byte> memory(PinnedBuffer& buffer) { return {buffer.data(), kMemory}; }
  void write(AllocationIndex to, std::span<const std::byte> bytes) {
    stream_.Launch(Job::to_device(bytes.data(), to, bytes.size()), {});
    stream_.Synchronize(Clock::now() + test_bounds::kWork);  // until then the bytes belong to the transfer
  }
  std::vector<std::byte> read(AllocationIndex from) {
    std::vector<std::byte> bytes(kMemory);
    stream_.Launch(Job::from_device(bytes.data(), from, bytes.size()), {});
    stream_.Synchronize(Clock::now() + test_bounds::kWork);
    return bytes;
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  Runtime runtime_{card_.attach(), options()};
  FlexStream& stream_ = runtime_.default_stream();
  PinnedBuffer host_ = runtime_.host_memory().allocate(kMemory);
  PinnedBuffer back_ = runtime_.host_memory().allocate(kMemory);
  AllocationIndex a_ = runtime_.allocator().allocate(kMemory);
  AllocationIndex b_ = runtime_.allocator().allocate(kMemory);
};

TEST_P(StridedTransfers, MoveWhatAModelMovesInAllThreeDirections) {
  std::mt19937_64 random(5);
  std::ranges::generate(memory(host_), [&] { return static_cast<std::byte>(random()); });
  const PinnedPlace host{host_.data(), kMemory}, back{back_.data(), kMemory};
  for (int round = 0; round < 60; ++round) {
    std::vector<std::byte> in_a(kMemory, std::byte{1}), in_b(kMemory, std::byte{2}), in_back(kMemory, std::byte{3});
    write(a_, in_a);
    write(b_, in_b);
    std::ranges::copy(in_back, back_.data());
    const auto move = [&](const StridedPlace& from, std::span<const std::byte> source, const StridedPlace& to,
                          std::span<std::byte> expected) {
      const Nest nest = test::random_nest(random, {.elements = 500, .memory_bytes = kMemory});
      test::move(nest, source, expected);
      launch({from, to, nest.element_bytes, loops_of(nest)});
    };
    move(host, memory(host_), CardPlace{a_}, in_a);
    move(CardPlace{a_}, in_a, CardPlace{b_}, in_b);
    move(CardPlace{b_}, in_b, back, in_back);
    ASSERT_EQ(read(a_), in_a) << round;
    ASSERT_EQ(read(b_), in_b) << round;
    ASSERT_TRUE(std::ranges::equal(memory(back_), in_back)) << round;
  }
}

// What describe_transfer() says of tensors, by the card and by the host.
TEST_P(StridedTransfers, OfTensorsAreWhatTheHostExecutorMakes) {
  struct Case {
    std::vector<std::int64_t> size, stride;
  };
  for (const Case& c : {Case{{120}, {1}}, Case{{32, 240}, {240, 1}}, Case{{16, 8, 100}, {800, 100, 1}},
                        Case{{5, 100, 17}, {1700, 17, 1}}, Case{{2, 3, 2, 3, 2, 65}, {2340, 780, 390, 130, 65, 1}}}) {
    const auto layout =
        SpyreTensorLayout::of(HostShape{.dtype = DataType::Float16, .size = c.size, .stride = c.stride});
    const auto nests =
        describe_transfer(layout, DeviceView{c.size, c.stride, 0}, c.stride, TransferDirection::ToDevice);
    for (std::size_t i = 0; i < kMemory; ++i) host_.data()[i] = static_cast<std::byte>(i * 7 + i / 256);
    std::vector<std::byte> expected(kMemory);
    copy_strided(nests, ElementFormat::Dl16, memory(host_), ElementFormat::Dl16, expected);
    const std::vector<std::byte> zeros(kMemory);
    write(a_, zeros);
    std::vector<StridedTransfer> transfers;
    transfers.reserve(nests.size());
    for (const StridedLoops& nest : nests) {
      transfers.push_back({PinnedPlace{host_.data(), kMemory}, CardPlace{a_}, 2, nest});
    }
    stream_.Launch(Job::strided(transfers), {});
    EXPECT_EQ(read(a_), expected) << c.size.size() << " dimensions";
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutChecksums, StridedTransfers, testing::Bool(),
                         [](const auto& info) { return info.param ? "Checksums" : "Plain"; });

// ---- what only a launch can know ------------------------------------------------------------------------------------

class RefusedStrided : public StridedTransfers {};
INSTANTIATE_TEST_SUITE_P(Plain, RefusedStrided, testing::Values(false));

TEST_P(RefusedStrided, PlacesThatAreNotWhatTheySayAreRefusedByTheLaunch) {
  std::vector<std::byte> pageable(kMemory);
  const StridedLoops loops{{16, 16}, {16, 1}, {1, 16}, 0, 0};
  const auto refused = [&](const StridedTransfer& transfer) {
    const auto before = runtime_.device().statistics().submitted;
    try {
      launch(transfer);
    } catch (const Error& error) {
      EXPECT_EQ(runtime_.device().statistics().submitted, before);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused({PinnedPlace{pageable.data(), kMemory}, CardPlace{a_}, 2, loops}),
              testing::HasSubstr("not pinned"));
  EXPECT_THAT(refused({PinnedPlace{host_.data(), kMemory}, CardPlace{a_, kMemory - 256}, 2, loops}),
              testing::HasSubstr("exceed"));
  runtime_.allocator().deallocate(b_);
  EXPECT_THAT(refused({CardPlace{a_}, CardPlace{b_}, 2, loops}), testing::HasSubstr("job_plan.step[0]"));
  EXPECT_EQ(refused({PinnedPlace{host_.data(), kMemory}, CardPlace{a_, kMemory - 512}, 2, loops}), "accepted");
}

TEST_P(RefusedStrided, ATransferOfNothingTakesNoBlock) {
  const auto before = runtime_.device().statistics().submitted;
  launch({PinnedPlace{host_.data(), kMemory}, CardPlace{a_}, 2, {{16, 0}, {1, 16}, {1, 16}, 0, 0}});
  EXPECT_EQ(runtime_.device().statistics().submitted, before);
}

// ---- what is checked before -----------------------------------------------------------------------------------------

TEST(StridedDMA, EveryFieldIsCheckedAndNamed) {
  constexpr auto kFar = std::numeric_limits<std::int64_t>::max();
  alignas(8) std::byte bytes[4096];
  const auto card = [](std::uint64_t offset) {
    return CardPlace{std::bit_cast<AllocationIndex>(std::uint64_t{1}), offset};
  };
  const StridedTransfer good{PinnedPlace{bytes, 4096}, card(128), 4, {{4, 8}, {1, -4}, {1, 4}, 28, 0}};
  EXPECT_NO_THROW(StridedDMA{good});
  const auto refused = [&](auto spoil) {
    StridedTransfer bad = good;
    spoil(bad);
    try {
      (void)StridedDMA(bad);
    } catch (const InvalidArgument& error) {
      return error.info().source;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](auto& t) { t.element_bytes = 3; }), "element_bytes");
  EXPECT_EQ(refused([](auto& t) { t.loops.dst_stride.pop_back(); }), "loops");
  EXPECT_EQ(refused([](auto& t) { t.loops.size[0] = -1; }), "loops");
  EXPECT_EQ(refused([](auto& t) { t.loops.size[1] = 0; }), "loops");
  EXPECT_EQ(refused([](auto& t) { t.loops.size[1] = kFar; }), "loops");
  EXPECT_EQ(refused([](auto& t) { t.loops.src_stride[1] = kFar; }), "loops");
  EXPECT_EQ(refused([](auto& t) {
              for (std::int64_t i = 1; i <= 8; ++i) {
                t.loops.size.push_back(2), t.loops.src_stride.push_back(0), t.loops.dst_stride.push_back(32 << 2 * i);
              }
            }),
            "loops");
  EXPECT_EQ(refused([](auto& t) { t.loops.src_offset = 27; }), "source");
  EXPECT_EQ(refused([](auto& t) { t.loops.src_offset = 1021; }), "source");
  EXPECT_EQ(refused([](auto& t) { t.loops.src_offset = kFar; }), "source");
  EXPECT_EQ(refused([&](auto& t) { t.source = PinnedPlace{bytes + 2, 4094}; }), "source");
  EXPECT_EQ(refused([](auto& t) { t.source = PinnedPlace{nullptr, 4096}; }), "source");
  EXPECT_EQ(refused([](auto& t) { t.destination = CardPlace{}; }), "destination");
  EXPECT_EQ(refused([&](auto& t) { t.destination = card(130); }), "destination");
  EXPECT_EQ(refused([&](auto& t) { t.destination = PinnedPlace{bytes, 4096}; }), "destination");
  EXPECT_EQ(refused([](auto& t) { t.loops.dst_offset = -33; }), "destination");
  EXPECT_EQ(refused([](auto& t) { t.loops.dst_stride[1] = 3; }), "destination");
  EXPECT_EQ(refused([](auto& t) { t.loops.dst_offset = -32; }), "accepted");
}

TEST(Merged, MovesTheSameElements) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 500; ++round) {
    const Nest nest = test::random_nest(random, {.elements = 400, .memory_bytes = 8192});
    const Nest merged_nest = nest_of(merged(loops_of(nest)), nest.element_bytes);
    EXPECT_LE(merged_nest.levels.size(), nest.levels.size());
    std::vector<std::byte> source(8192), expected(8192), is(8192);
    std::ranges::generate(source, [&] { return static_cast<std::byte>(random()); });
    test::move(nest, source, expected);
    test::move(merged_nest, source, is);
    ASSERT_EQ(is, expected) << round;
  }
}

TEST(Merged, JoinsWhatGoesOnAndLeavesOutSingleSteps) {
  const StridedLoops loops{{1, 4, 2, 8, 3}, {9, 8, 32, 1, 100}, {9, 8, 32, 1, 64}, 5, 6};
  const StridedLoops expected{{64, 3}, {1, 100}, {1, 64}, 5, 6};
  EXPECT_EQ(merged(loops), expected);
  EXPECT_EQ(merged({{4, 4}, {-1, -4}, {1, 4}, 15, 0}), (StridedLoops{{16}, {-1}, {1}, 15, 0}));
  EXPECT_EQ(merged({{1, 1}, {7, 7}, {0, 0}, 1, 2}), (StridedLoops{{}, {}, {}, 1, 2}));
}

TEST(SumOfElements, IsTheSumInTheOrderOfTheLoops) {
  std::mt19937_64 random(9);
  std::vector<std::byte> memory(32 * 1024);
  std::ranges::generate(memory, [&] { return static_cast<std::byte>(random()); });
  for (int round = 0; round < 300; ++round) {
    const Nest nest = test::random_nest(random, {.elements = 4000, .memory_bytes = memory.size()});
    wire::StridedPayload loops{};
    loops.depth = static_cast<std::uint32_t>(nest.levels.size());
    loops.element_bytes = nest.element_bytes;
    std::ranges::copy(nest.levels, loops.levels);
    ASSERT_EQ(sum_of_elements(loops, &wire::StridedLevel::source_stride, memory, nest.source), test::sum(nest, memory));
  }
}

}  // namespace
}  // namespace svp
