// SPDX-License-Identifier: Apache-2.0
// A tenant floods the card with launches whose images, a megabyte each, do not match their checksums. Hart 0 sums each
// of them; meanwhile the heartbeat goes on. Everything is counted, nothing timed.
#include <algorithm>
#include <deque>

#include "shared/memory_order.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/support/kernel_image.hpp"
#include "tests/support/lengthened_image.hpp"

namespace svp {
namespace {

using test::RecordedStream;
using test::Workbench;

constexpr unsigned kStreams = 64;  // each launch poisons its stream
constexpr unsigned kRounds = 4;

// The longest image, whose last byte is not the one that was summed.
std::vector<std::byte> spoilt_image(const Card& card) {
  auto image = test::lengthened_image(test::kernel_image(card, "empty"));
  image.back() ^= std::byte{1};
  return image;
}

class LaunchFlood {
 public:
  LaunchFlood(Device& device, std::span<const std::byte> image)
      : bench_(device), block_(bench_.compute(0, image.size())) {
    bench_.load(0, image);
    for (unsigned i = 0; i < kStreams; ++i) streams_.emplace_back(device);
  }
  void submit() {
    for (auto& stream : streams_) ASSERT_EQ(stream.submit(block_), 1u);
  }
  void wait_for_all() {
    for (auto& stream : streams_) ASSERT_TRUE(stream.wait_all(test::kBound));
  }
  void reset() {
    for (auto& stream : streams_) value_or_throw(stream.reset());
  }
  void expect_all_refused() const {
    for (const auto& stream : streams_) {
      ASSERT_EQ(stream.ended(), kRounds);
      for (const auto& end : stream.sink().all()) ASSERT_EQ(end.status, wire::Status::ImageCrc);
    }
  }

 private:
  Workbench bench_;
  const wire::ControlBlock block_;
  std::deque<RecordedStream> streams_;
};

// 256 checksums over a megabyte are a second of the emulated hart, without the compute array, which sums much faster;
// that no beat of 5 ms came in it is what was seen.
TEST(LaunchFlood, TheHeartbeatGoesOnBesideRefusedImages) {
  auto options = test::small_card();
  options.array = "off";
  const auto card = test::boot(options);
  const auto device = value_or_throw(card->open_virtual(1));
  LaunchFlood flood(*device, spoilt_image(*card));
  const auto& heartbeat = reinterpret_cast<const wire::WindowHeader*>(test::window_of(*device))->heartbeat;
  std::uint64_t fewest = ~std::uint64_t{0};
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::uint64_t before = wire::load_relaxed(heartbeat);
    flood.submit();
    flood.wait_for_all();
    fewest = std::min(fewest, wire::load_relaxed(heartbeat) - before);
    flood.reset();
  }
  flood.expect_all_refused();
  // An emulated hart that summed a megabyte in a quarter of a beat would still beat so often in 64 of them.
  EXPECT_GE(fewest, kStreams / 4);
  test::expect_healthy(*card, *device);
}

}  // namespace
}  // namespace svp
