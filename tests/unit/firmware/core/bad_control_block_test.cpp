// SPDX-License-Identifier: Apache-2.0
// Every field of a control block with a bad value: REJECTED with that field's name, nothing executed, nothing written
// but the completion and the used ring, and the ring goes on (scenarios F6 to F11).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "shared/crc32c.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::ControlBlock;
using wire::EndpointKind;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kHost = wire::kHostMemoryOffset;

enum class Base { Nop, ToDevice, FromDevice, OnDevice, Fill, Signal, Wait, Compute };

struct BadField {
  const char* what;
  Base base;
  std::function<void(ControlBlock&)> spoil;
  Status status;
  Field field;
  bool names_no_stream = false;  // then no stream may be poisoned
};

// What every endpoint can get wrong; `at` finds it in the block.
void add_endpoint_cases(std::vector<BadField>& cases, Base base, Field field, wire::Endpoint& (*at)(ControlBlock&),
                        bool device, std::uint64_t bytes, std::uint64_t region_bytes, std::uint64_t window_bytes) {
  const auto add = [&](const char* what, Status status, std::function<void(wire::Endpoint&)> spoil) {
    cases.push_back({what, base, [at, spoil](ControlBlock& b) { spoil(at(b)); }, status, field});
  };
  add("endpoint kind 2", Status::BadEndpointKind, [](auto& e) { e.kind = static_cast<EndpointKind>(2); });
  add("endpoint kind 255", Status::BadEndpointKind, [](auto& e) { e.kind = static_cast<EndpointKind>(255); });
  for (int i = 0; i < 3; ++i) {
    add("endpoint reserved byte", Status::ReservedBits, [i](auto& e) { e.reserved[i] = 1; });
  }
  if (device) {
    add("unaligned region offset", Status::BadAlignment, [](auto& e) { e.offset += 64; });
    add("unknown region", Status::UnknownRegion, [](auto& e) { e.region_id = 6; });
    add("region id of nobody", Status::UnknownRegion, [](auto& e) { e.region_id = kMax; });
    add("stale region generation", Status::StaleRegion, [](auto& e) { e.generation += 1; });
    add("region generation 0", Status::StaleRegion, [](auto& e) { e.generation = 0; });
    add("one stick over the region's end", Status::OutOfBounds,
        [=](auto& e) { e.offset = region_bytes - bytes + 128; });
    add("offset that wraps", Status::OutOfBounds, [](auto& e) { e.offset = kMax - 127; });
  } else {
    add("host endpoint with a region", Status::ReservedBits, [](auto& e) { e.region_id = 1; });
    add("host endpoint with a generation", Status::ReservedBits, [](auto& e) { e.generation = 1; });
    add("window header", Status::NotHostMemory, [](auto& e) { e.offset = 0; });
    add("completion slots", Status::NotHostMemory, [](auto& e) { e.offset = wire::kCompletions.offset; });
    add("one byte before host memory", Status::NotHostMemory, [](auto& e) { e.offset = kHost - 1; });
    add("one byte over the window's end", Status::NotHostMemory, [=](auto& e) { e.offset = window_bytes - bytes + 1; });
    add("window offset that wraps", Status::NotHostMemory, [=](auto& e) { e.offset = kMax - bytes + 2; });
  }
}

std::vector<BadField> bad_fields(std::uint64_t bytes, std::uint64_t region_bytes, std::uint64_t window_bytes) {
  std::vector<BadField> cases;
  const auto add = [&](const char* what, Base base, std::function<void(ControlBlock&)> spoil, Status status,
                       Field field, bool names_no_stream = false) {
    cases.push_back({what, base, std::move(spoil), status, field, names_no_stream});
  };
  // Header: the address of a block first, then its form.
  for (const Base base : {Base::Nop, Base::ToDevice, Base::Fill, Base::Signal, Base::Wait, Base::Compute}) {
    add("magic", base, [](auto& b) { b.header.magic ^= 1; }, Status::BadMagic, Field::Magic, true);
    add("0 sticks", base, [](auto& b) { b.header.sticks = 0; }, Status::BadSize, Field::Sticks, true);
    add("5 sticks", base, [](auto& b) { b.header.sticks = 5; }, Status::BadSize, Field::Sticks, true);
    add("other sticks than sent", base, [](auto& b) { b.header.sticks ^= 3; }, Status::BadSize, Field::Sticks, true);
    add(
        "old generation", base, [](auto& b) { --b.header.generation; }, Status::StaleGeneration, Field::Generation,
        true);
    add(
        "future generation", base, [](auto& b) { ++b.header.generation; }, Status::StaleGeneration, Field::Generation,
        true);
    add("stream not open", base, [](auto& b) { b.header.stream = 100; }, Status::UnknownStream, Field::Stream, true);
    add("stream 128", base, [](auto& b) { b.header.stream = 128; }, Status::UnknownStream, Field::Stream, true);
    add("stream 2^32-1", base, [](auto& b) { b.header.stream = ~0u; }, Status::UnknownStream, Field::Stream, true);
    add(
        "old incarnation", base, [](auto& b) { --b.header.incarnation; }, Status::StaleIncarnation, Field::Incarnation,
        true);
    add(
        "future incarnation", base, [](auto& b) { ++b.header.incarnation; }, Status::StaleIncarnation,
        Field::Incarnation, true);
    add("flags", base, [](auto& b) { b.header.flags = 0x8000; }, Status::BadFlags, Field::Flags);
    add("reserved word", base, [](auto& b) { b.header.reserved0 = 1; }, Status::ReservedBits, Field::Reserved);
    add(
        "reserved double word", base, [](auto& b) { b.header.reserved1 = 1ull << 63; }, Status::ReservedBits,
        Field::Reserved);
    add("CRC", base, [](auto& b) { b.header.crc32c ^= 0x80; }, Status::BadCrc, Field::Crc);
    add("repeated sequence", base, [](auto& b) { --b.header.sequence; }, Status::BadSequence, Field::Sequence);
    add("skipped sequence", base, [](auto& b) { ++b.header.sequence; }, Status::BadSequence, Field::Sequence);
    add("sequence 2^64-1", base, [](auto& b) { b.header.sequence = kMax; }, Status::BadSequence, Field::Sequence);
  }
  for (const unsigned opcode : {9u, 10u, 0x80u, 0xffu}) {
    add(
        "unknown opcode", Base::Nop, [=](auto& b) { b.header.opcode = static_cast<Opcode>(opcode); }, Status::BadOpcode,
        Field::OpcodeField);
  }
  // command_buffers_test.cpp has what else can be wrong with these.
  for (const Opcode opcode : {Opcode::Call, Opcode::Prepared}) {
    add(
        "a command buffer that there is not", Base::Nop, [=](auto& b) { b.header.opcode = opcode; },
        Status::UnknownCommandBuffer, Field::CallBuffer);
  }
  add(
      "opcode of another size", Base::Nop, [](auto& b) { b.header.opcode = Opcode::Compute; }, Status::BadSize,
      Field::Sticks);
  add(
      "opcode of another size", Base::Compute, [](auto& b) { b.header.opcode = Opcode::Nop; }, Status::BadSize,
      Field::Sticks);
  for (unsigned word = 0; word < 8; ++word) {
    add(
        "NOP with a payload", Base::Nop, [=](auto& b) { b.payload.words[word] = 1; }, Status::ReservedBits,
        Field::Reserved);
  }

  // DMA
  for (const Base base : {Base::ToDevice, Base::FromDevice, Base::OnDevice}) {
    add("0 bytes", base, [](auto& b) { b.payload.dma.bytes = 0; }, Status::BadSize, Field::DmaBytes);
    add(
        "strided without loops", base, [](auto& b) { b.payload.dma.flags = wire::kDmaStrided; }, Status::BadSize,
        Field::Sticks);
    if (base != Base::ToDevice) {
      add(
          "checksum of what the card sends", base,
          [](auto& b) {
            b.payload.dma.flags = wire::kDmaChecksum;
            b.payload.dma.checksum = 1;
          },
          Status::BadFlags, Field::DmaFlags);
    }
    add("unknown DMA flag", base, [](auto& b) { b.payload.dma.flags = 8; }, Status::BadFlags, Field::DmaFlags);
    if (base != Base::ToDevice) {
      add(
          "ahead, but not to the card", base, [](auto& b) { b.payload.dma.flags = wire::kDmaAhead; }, Status::BadFlags,
          Field::DmaFlags);
    }
    add(
        "ahead, and larger than a correction tensor", base,
        [](auto& b) {
          b.payload.dma.flags = wire::kDmaAhead;
          b.payload.dma.bytes = wire::kMaxCorrectionBytes + 1;
        },
        Status::BadFlags, Field::DmaFlags);
    add(
        "checksum without its flag", base, [](auto& b) { b.payload.dma.checksum = 1; }, Status::BadFlags,
        Field::DmaFlags);
    const bool from_device = base != Base::ToDevice, to_device = base != Base::FromDevice;
    for (const std::uint64_t huge : {kMax, std::uint64_t{1} << 63, kMax - 127}) {
      add(
          "huge transfer", base, [=](auto& b) { b.payload.dma.bytes = huge; },
          from_device ? Status::OutOfBounds : Status::NotHostMemory, Field::DmaSource);
    }
    add_endpoint_cases(
        cases, base, Field::DmaSource, [](ControlBlock& b) -> wire::Endpoint& { return b.payload.dma.source; },
        from_device, bytes, region_bytes, window_bytes);
    add_endpoint_cases(
        cases, base, Field::DmaDestination,
        [](ControlBlock& b) -> wire::Endpoint& { return b.payload.dma.destination; }, to_device, bytes, region_bytes,
        window_bytes);
  }
  add(
      "host to host", Base::ToDevice,
      [](auto& b) { b.payload.dma.destination = fwtest::RawDriver::host(kHost + 0x10000); }, Status::BadEndpointKind,
      Field::DmaDestination);
  for (const std::uint64_t shift : {std::uint64_t{0}, std::uint64_t{128}}) {
    add(
        "ends that overlap", Base::OnDevice,
        [=](auto& b) {
          b.payload.dma.bytes = 512;
          b.payload.dma.destination.offset = b.payload.dma.source.offset + shift;
        },
        Status::Overflow, Field::DmaDestination);
  }

  // FILL
  add("0 bytes", Base::Fill, [](auto& b) { b.payload.fill.bytes = 0; }, Status::BadSize, Field::FillBytes);
  add(
      "huge fill", Base::Fill, [](auto& b) { b.payload.fill.bytes = kMax; }, Status::OutOfBounds,
      Field::FillDestination);
  add(
      "reserved bytes of FILL", Base::Fill, [](auto& b) { b.payload.fill.reserved[23] = 1; }, Status::ReservedBits,
      Field::Reserved);
  add(
      "FILL of host memory", Base::Fill, [](auto& b) { b.payload.fill.destination = fwtest::RawDriver::host(kHost); },
      Status::BadEndpointKind, Field::FillDestination);
  // Kind 0 is host memory to this list, so the endpoint cases but kinds apply.
  add_endpoint_cases(
      cases, Base::Fill, Field::FillDestination,
      [](ControlBlock& b) -> wire::Endpoint& { return b.payload.fill.destination; }, true, bytes, region_bytes,
      window_bytes);

  // Events
  for (const Base base : {Base::Signal, Base::Wait}) {
    add("value 0", base, [](auto& b) { b.payload.event.value = 0; }, Status::EventRegressed, Field::EventValue);
    for (unsigned word = 0; word < 4; ++word) {
      add(
          "reserved words of an event", base, [=](auto& b) { b.payload.event.reserved[word] = 1; },
          Status::ReservedBits, Field::Reserved);
    }
  }
  for (const std::uint32_t flags : {1u, 2u, 1u << 31}) {
    add(
        "signal with flags", Base::Signal, [=](auto& b) { b.payload.event.flags = flags; }, Status::BadFlags,
        Field::EventFlags);
    if (flags == wire::kEventGranted) continue;
    add(
        "wait with a flag that is not known", Base::Wait, [=](auto& b) { b.payload.event.flags = flags; },
        Status::BadFlags, Field::EventFlags);
  }
  for (const Base base : {Base::Signal, Base::Wait}) {
    add(
        "grant without its flag", base, [](auto& b) { b.payload.event.grant = 1; }, Status::ReservedBits,
        Field::EventGrant);
    add(
        "epoch without its flag", base, [](auto& b) { b.payload.event.epoch = 1; }, Status::ReservedBits,
        Field::EventGrant);
  }
  for (const std::uint32_t grant : {0u, 63u, 64u, ~0u}) {
    add(
        "wait by a grant that was never made", Base::Wait,
        [=](auto& b) {
          b.payload.event.stream = 0;
          b.payload.event.flags = wire::kEventGranted;
          b.payload.event.grant = grant;
          b.payload.event.epoch = std::uint64_t{1} << 32 | 1;
        },
        Status::UnknownGrant, Field::EventGrant);
  }
  add(
      "wait by a grant that names a stream", Base::Wait,
      [](auto& b) {
        b.payload.event.stream = 1;
        b.payload.event.flags = wire::kEventGranted;
      },
      Status::ReservedBits, Field::EventStream);
  add(
      "signal of a stream", Base::Signal, [](auto& b) { b.payload.event.stream = 1; }, Status::ReservedBits,
      Field::EventStream);
  add(
      "signal of an incarnation", Base::Signal, [](auto& b) { b.payload.event.incarnation = 1; }, Status::ReservedBits,
      Field::EventStream);
  for (const std::uint32_t stream : {std::uint32_t{wire::kStreamsPerFunction}, ~0u, 100u}) {
    add(
        "wait for a stream that is not open", Base::Wait, [=](auto& b) { b.payload.event.stream = stream; },
        Status::UnknownStream, Field::EventStream);
  }
  for (const std::uint32_t incarnation : {3u, ~0u}) {
    add(
        "wait for an incarnation to come", Base::Wait, [=](auto& b) { b.payload.event.incarnation = incarnation; },
        Status::UnknownStream, Field::EventStream);
  }

  // COMPUTE
  add_endpoint_cases(
      cases, Base::Compute, Field::ComputeImage,
      [](ControlBlock& b) -> wire::Endpoint& { return b.payload.compute.image; }, true, 1024, region_bytes,
      window_bytes);
  add_endpoint_cases(
      cases, Base::Compute, Field::ComputeCorrection,
      [](ControlBlock& b) -> wire::Endpoint& { return b.payload.compute.correction; }, true, 256, region_bytes,
      window_bytes);
  add(
      "image in host memory", Base::Compute, [](auto& b) { b.payload.compute.image = fwtest::RawDriver::host(kHost); },
      Status::BadEndpointKind, Field::ComputeImage);
  add(
      "correction in host memory", Base::Compute,
      [](auto& b) { b.payload.compute.correction = fwtest::RawDriver::host(kHost); }, Status::BadEndpointKind,
      Field::ComputeCorrection);
  add(
      "image smaller than its header", Base::Compute, [](auto& b) { b.payload.compute.image_bytes = 127; },
      Status::BadSize, Field::ComputeImageBytes);
  // What cannot be an image must not cost a checksum over gigabytes.
  for (const std::uint64_t huge : {kMax, std::uint64_t{16} << 30, wire::kMaxImageBytes + 1}) {
    add(
        "image larger than any", Base::Compute, [=](auto& b) { b.payload.compute.image_bytes = huge; }, Status::BadSize,
        Field::ComputeImageBytes);
  }
  for (const std::uint64_t size : {wire::kMaxCorrectionBytes + 1, kMax}) {
    add(
        "correction too large", Base::Compute, [=](auto& b) { b.payload.compute.correction_bytes = size; },
        Status::CorrectionTooLarge, Field::ComputeCorrectionBytes);
  }
  for (const std::uint64_t mask : {std::uint64_t{2}, kMax, std::uint64_t{1} << 63}) {
    add(
        "cores that do not exist", Base::Compute, [=](auto& b) { b.payload.compute.core_mask = mask; },
        Status::BadCoreMask, Field::ComputeCoreMask);
  }
  for (unsigned word = 0; word < 7; ++word) {
    add(
        "reserved words of COMPUTE", Base::Compute, [=](auto& b) { b.payload.compute.reserved[word] = 1; },
        Status::ReservedBits, Field::Reserved);
  }
  // Twice the budget must still be a number of ticks: 2^63 slices would kill the kernel at once.
  for (const std::uint64_t budget : {kMax, std::uint64_t{1} << 63, std::uint64_t{1} << 50}) {
    add(
        "budget that overflows", Base::Compute, [=](auto& b) { b.header.budget = budget; }, Status::BadBudget,
        Field::Budget);
  }
  const auto segment = [&](const char* what, std::function<void(wire::Segment&)> spoil, Status status) {
    for (const unsigned i : {0u, 7u}) {
      add(
          what, Base::Compute,
          [=](auto& b) {
            wire::Segment& s = b.payload.compute.segments[i];
            s = b.payload.compute.segments[3];
            spoil(s);
          },
          status, Field::ComputeSegment);
    }
  };
  segment("segment access 4", [](auto& s) { s.access = 4; }, Status::BadAccess);
  segment("segment reserved", [](auto& s) { s.reserved[2] = 1; }, Status::ReservedBits);
  segment("empty segment", [](auto& s) { s.bytes = 0; }, Status::BadSize);
  segment("segment of an unknown region", [](auto& s) { s.region_id = 5; }, Status::UnknownRegion);
  segment("segment of an old region", [](auto& s) { ++s.generation; }, Status::StaleRegion);
  segment("segment over the end", [=](auto& s) { s.offset = region_bytes; }, Status::OutOfBounds);
  segment("segment that wraps", [](auto& s) { s.offset = kMax; }, Status::OutOfBounds);
  segment("segment in the Program region", [](auto& s) { s.region_id = 7, s.generation = 0; }, Status::StaleRegion);
  return cases;
}

class BadControlBlock : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kBytes = 256;

  BadControlBlock()
      : card_({.window_bytes = wire::kMinWindowBytes,
               .region_bytes = 4 * wire::kMiB,
               .boot_arguments = fwtest::kAllForTheFirst,
               .kernel = [](hal::Context&, std::uint64_t) -> hal::Stop {
                 ADD_FAILURE() << "a kernel ran";
                 return {};
               }}) {
    std::uint64_t features = wire::kMandatoryFeatures;
    if (GetParam()) features |= wire::kFeatureControlBlockCrc;
    EXPECT_TRUE(driver_.bring_up(features));
    tensor_ = driver_.acquire(2 * wire::kMiB).value();
    program_ = driver_.acquire(2 * wire::kMiB, wire::RegionType::Program).value();
    stream_ = driver_.open_stream().value();
    other_ = driver_.open_stream().value();
    EXPECT_EQ(driver_.run(driver_.event_signal(other_, other_signalled_)).outcome, Outcome::Ok);
    for (std::size_t i = 0; i < card_.board().region_memory().size(); i += 4096) {
      card_.board().region_memory()[i] = static_cast<std::byte>(i >> 12);
    }
  }

  ControlBlock good(Base base) {
    const auto host = fwtest::RawDriver::host(kHost);
    const auto low = fwtest::RawDriver::device(tensor_, 0), high = fwtest::RawDriver::device(tensor_, 0x10000);
    switch (base) {
      case Base::Nop: return driver_.nop(stream_);
      case Base::ToDevice: return driver_.dma(stream_, host, low, kBytes);
      case Base::FromDevice: return driver_.dma(stream_, low, host, kBytes);
      case Base::OnDevice: return driver_.dma(stream_, low, high, kBytes);
      case Base::Fill: return driver_.fill(stream_, tensor_, 0, kBytes, 0x55);
      case Base::Signal: return driver_.event_signal(stream_, 1);
      case Base::Wait: return driver_.event_wait(stream_, other_, other_signalled_);
      case Base::Compute: break;
    }
    auto block = driver_.compute(stream_, program_, 0, 1024, 1);
    block.payload.compute.correction = fwtest::RawDriver::device(program_, 4096);
    block.payload.compute.correction_bytes = 256;
    block.payload.compute.segments[3] = {tensor_.id, 0, 128, tensor_.generation, wire::kSegmentRead, {}};
    driver_.seal(block);
    return block;
  }

  static std::vector<std::byte> copy_of(std::span<const std::byte> memory) { return {memory.begin(), memory.end()}; }

  void expect_rejected(const BadField& bad) {
    SCOPED_TRACE(std::string(bad.what) + " in base " + std::to_string(static_cast<int>(bad.base)));
    ControlBlock block = good(bad.base);
    const unsigned sticks = block.header.sticks;
    bad.spoil(block);
    if (bad.field != Field::Crc) {
      // The size of what is checksummed is what is sent.
      ControlBlock sealed = block;
      sealed.header.sticks = static_cast<std::uint8_t>(sticks);
      block.header.crc32c = 0;
      if (GetParam()) block.header.crc32c = wire::crc32c(0, &block, sticks * wire::kStickBytes);
    }
    const std::uint16_t slot = driver_.submit_sticks(block, sticks);
    const auto window_before = copy_of(driver_.window());
    const auto regions_before = copy_of(card_.board().region_memory());
    card_.run_until_idle();
    const auto ended = driver_.collect();
    ASSERT_EQ(ended.size(), 1u);
    const auto& completion = ended[0].completion;
    EXPECT_EQ(ended[0].written, wire::kStickBytes);
    EXPECT_EQ(completion.outcome, Outcome::Rejected);
    EXPECT_EQ(completion.status, bad.status) << wire::name(completion.status);
    EXPECT_EQ(completion.field, bad.field) << wire::name(completion.field);
    EXPECT_EQ(completion.cookie, block.header.cookie);
    EXPECT_EQ(completion.start_time, 0u);
    EXPECT_EQ(completion.bytes, 0u);
    expect_untouched(window_before, slot);
    EXPECT_EQ(std::memcmp(regions_before.data(), card_.board().region_memory().data(), regions_before.size()), 0)
        << "region memory changed";
    expect_ring_goes_on(bad);
  }

  void expect_untouched(const std::vector<std::byte>& before, std::uint16_t slot) {
    const auto now = driver_.window();
    const wire::Block completion{wire::kCompletions.offset + slot * wire::kStickBytes, wire::kStickBytes};
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (i % 4096 == 0 && std::memcmp(&now[i], &before[i], 4096) == 0) {
        i += 4095;
        continue;
      }
      if (now[i] == before[i] || completion.contains(i, 1)) continue;
      const auto used_ring = wire::kQueueLayouts[wire::kControlBlockQueue].descriptors;
      const auto lost = offsetof(wire::WindowHeader, events_lost);
      if (i >= used_ring && i < used_ring + 16 * wire::kControlBlockQueueSize) continue;
      if (i >= lost && i < lost + 8) continue;  // no buffer for "stream poisoned"
      FAIL() << "window byte " << i << " changed";
    }
  }

  void expect_ring_goes_on(const BadField& bad) {
    EXPECT_EQ(driver_.run(driver_.nop(other_)).outcome, Outcome::Ok);
    if (bad.names_no_stream) {
      --stream_.next_sequence;  // it never counted
      EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok) << "a stream was harmed that was not named";
      return;
    }
    const auto after = driver_.run(driver_.nop(stream_));
    EXPECT_EQ(after.outcome, Outcome::Aborted);
    EXPECT_EQ(after.status, Status::StreamPoisoned);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
  }

  fwtest::TestCard card_;
  fwtest::RawDriver& driver_ = card_.driver(2);
  RegionHandle tensor_{}, program_{};
  StreamHandle stream_, other_;
  const std::uint64_t other_signalled_ = 5;
};

TEST_P(BadControlBlock, EveryBadFieldIsRejectedByItsNameAndHarmsNothing) {
  for (const auto& bad : bad_fields(kBytes, 2 * wire::kMiB, driver_.window().size())) {
    expect_rejected(bad);
    if (HasFailure()) break;
  }
}

TEST_P(BadControlBlock, TheUnspoiltBlocksAreGood) {
  for (const Base base :
       {Base::Nop, Base::ToDevice, Base::FromDevice, Base::OnDevice, Base::Fill, Base::Signal, Base::Wait}) {
    EXPECT_EQ(driver_.run(good(base)).outcome, Outcome::Ok);
  }
  // The image is zeros: its form is good, its contents are not.
  const auto end = driver_.run(good(Base::Compute));
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::ImageMagic);
  EXPECT_EQ(end.field, Field::ImageHeaderField);
}

TEST_P(BadControlBlock, TheIndexOfABadSegmentIsReported) {
  for (const unsigned i : {0u, 1u, 7u}) {
    auto block = good(Base::Compute);
    block.payload.compute.segments[i].access = 9;
    driver_.seal(block);
    const auto end = driver_.run(block);
    EXPECT_EQ(end.field, Field::ComputeSegment);
    EXPECT_EQ(end.fault.argument, i);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCrc, BadControlBlock, testing::Bool(),
                         [](const auto& info) { return info.param ? "Crc" : "NoCrc"; });

// PF: what is named by base can be anybody's base.
TEST(BadAddress, APhysicalFunctionCannotNameTheRegionOfAnother) {
  fwtest::TestCard card;
  auto& pf = card.driver(1);
  auto& vf = card.driver(2);
  ASSERT_TRUE(pf.bring_up());
  ASSERT_TRUE(vf.bring_up());
  const auto mine = pf.acquire(2 * wire::kMiB).value();
  const auto others = vf.acquire(2 * wire::kMiB).value();
  StreamHandle stream;
  for (const std::uint64_t id : {mine.id + 2 * wire::kMiB, mine.id + 128, others.id, std::uint64_t{0}}) {
    const auto end = pf.run(pf.fill(stream, {id, mine.generation, mine.bytes}, 0, 128, 1));
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, Status::UnknownRegion);
    ASSERT_EQ(pf.reset_stream(stream).outcome, Outcome::Ok);
  }
  EXPECT_EQ(pf.run(pf.fill(stream, mine, 0, 128, 1)).outcome, Outcome::Ok);
}

}  // namespace
