// SPDX-License-Identifier: Apache-2.0
// The property above all others: every accepted block ends in exactly one completion, in the order of its stream, and
// nothing completes after its stream, queue or function is reported reset; whatever good and bad blocks come,
// interleaved with resets of every kind.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <random>

#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::Outcome;

// One function with what its driver believes.
class Tenant {
 public:
  Tenant(fwtest::RawDriver& driver, std::mt19937_64& random) : driver_(driver), random_(random) { bring_up(); }

  void bring_up() {
    ASSERT_TRUE(driver_.bring_up(random_() % 2 == 0 ? wire::kMandatoryFeatures : wire::kOfferedFeatures));
    outstanding_.clear();
    last_.clear();
    streams_.assign(1, StreamHandle{});
    for (int i = 0; i < 5; ++i) streams_.push_back(driver_.open_stream(random_() % 4 == 0).value());
    region_ = driver_.acquire(8 * wire::kMiB).value();
  }

  void submit() {
    if (!driver_.block_slot_free()) return;
    StreamHandle& stream = streams_[random_() % streams_.size()];
    wire::ControlBlock block = make(stream);
    const bool bad = random_() % 12 == 0;
    const unsigned sticks = block.header.sticks;
    if (bad) reinterpret_cast<std::uint8_t*>(&block)[random_() % 128] ^= static_cast<std::uint8_t>(1u << random_() % 8);
    outstanding_[driver_.submit_sticks(block, sticks)] = {block.header.stream, block.header.incarnation,
                                                          block.header.sequence, block.header.cookie};
    ++submitted;
  }

  void collect() {
    for (const auto& end : driver_.collect()) {
      const auto& c = end.completion;
      const auto sent = outstanding_.find(end.slot);
      ASSERT_NE(sent, outstanding_.end()) << "ended twice, or after its reset";
      ASSERT_EQ(c.stream, sent->second.stream);
      ASSERT_EQ(c.incarnation, sent->second.incarnation);
      ASSERT_EQ(c.sequence, sent->second.sequence);
      ASSERT_EQ(c.cookie, sent->second.cookie);
      ASSERT_LE(static_cast<unsigned>(c.outcome), static_cast<unsigned>(Outcome::Aborted));
      ASSERT_EQ(c.outcome == Outcome::Ok, c.status == wire::Status::None);
      if (c.outcome == Outcome::Ok) {
        auto& last = last_[{c.stream, c.incarnation}];
        ASSERT_EQ(c.sequence, last + 1) << "out of order, or good behind an error";
        last = c.sequence;
      }
      outstanding_.erase(sent);
      ++ended;
    }
  }

  void reset_stream() {
    StreamHandle& stream = streams_[random_() % streams_.size()];
    const auto old = stream;
    const auto reply = driver_.reset_stream(stream);
    ASSERT_EQ(reply.outcome, Outcome::Ok);
    collect();
    for (const auto& [slot, sent] : outstanding_) {
      // What was still in the ring is refused as stale when it is fetched; nothing of it may be in the stream.
      ASSERT_FALSE(sent.stream == old.id && sent.incarnation == stream.incarnation);
    }
  }

  void reset_queue() {
    ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue));
    collect();
    // What the card had not fetched was never taken from the ring and is the driver's again.
    lost += outstanding_.size();
    outstanding_.clear();
    driver_.forget_blocks();
    ASSERT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
    for (auto& stream : streams_) stream = {stream.id, stream.incarnation + 1, 1};
  }

  void reset_function() {
    ASSERT_EQ(driver_.set_status(0), 0u);
    collect();
    lost += outstanding_.size();
    driver_.forget();
    bring_up();
  }

  void drain() {
    for (int i = 0; i < 1000 && !outstanding_.empty(); ++i) {
      driver_.pump();
      collect();
    }
    ASSERT_TRUE(outstanding_.empty()) << outstanding_.size() << " blocks never ended";
  }

  std::size_t submitted = 0, ended = 0, lost = 0;

 private:
  struct Sent {
    std::uint32_t stream, incarnation;
    std::uint64_t sequence, cookie;
  };

  wire::ControlBlock make(StreamHandle& stream) {
    const auto host = fwtest::RawDriver::host(wire::kHostMemoryOffset + random_() % 4096);
    const auto device = fwtest::RawDriver::device(region_, random_() % 1000 * 128);
    const std::uint64_t bytes = 1 + random_() % (random_() % 8 == 0 ? 3'000'000 : 3000);
    switch (random_() % 4) {
      case 0: return driver_.dma(stream, host, device, bytes);
      case 1: return driver_.dma(stream, device, host, bytes);
      case 2: return driver_.fill(stream, region_, random_() % 1000 * 128, bytes, random_());
      default: return driver_.nop(stream);
    }
  }

  fwtest::RawDriver& driver_;
  std::mt19937_64& random_;
  std::vector<StreamHandle> streams_;
  RegionHandle region_{};
  std::map<std::uint16_t, Sent> outstanding_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> last_;
};

class ExactlyOnce : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ExactlyOnce, WhateverIsSubmittedAndResetInBetween) {
  std::mt19937_64 random(GetParam());
  fwtest::TestCard card({.virtual_functions = 2, .window_bytes = 8 * wire::kMiB, .region_bytes = 64 * wire::kMiB});
  std::array<std::unique_ptr<Tenant>, 3> tenants;
  for (unsigned i = 0; i < 3; ++i) tenants[i] = std::make_unique<Tenant>(card.driver(i + 1), random);
  for (int step = 0; step < 4000; ++step) {
    Tenant& tenant = *tenants[random() % 3];
    const auto roll = random() % 1000;
    if (roll < 600) {
      tenant.submit();
    } else if (roll < 900) {
      fw::run_iteration(card.card());
    } else if (roll < 970) {
      tenant.collect();
    } else if (roll < 990) {
      tenant.reset_stream();
    } else if (roll < 995) {
      tenant.reset_queue();
    } else {
      tenant.reset_function();
    }
    if (HasFatalFailure()) FAIL() << "seed " << GetParam() << " step " << step;
  }
  for (auto& tenant : tenants) {
    tenant->drain();
    EXPECT_EQ(tenant->submitted, tenant->ended + tenant->lost);
    EXPECT_GT(tenant->ended, 100u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExactlyOnce, testing::Range<std::uint64_t>(1, 9));

}  // namespace
