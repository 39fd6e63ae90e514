// SPDX-License-Identifier: Apache-2.0
// F7: bad lengths, truncated blocks, reserved bits, and every checksum that a request carries: of the control block, of
// a kernel's image, of the bytes of a transfer.
#include <algorithm>
#include <cstring>
#include <string>

#include "shared/crc32c.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/refusals.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using raw::RawDriver;
using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kImageAt = 2 * wire::kMiB;  // of the Program region; one each kImageStride
constexpr std::uint64_t kImageStride = 64 * wire::kKiB;
constexpr std::uint64_t kMovedTo = 3 * wire::kMiB;  // likewise: where transfers with a wrong checksum go
constexpr std::uint64_t kFormBytes = 64 * wire::kKiB;
constexpr std::uint64_t kFilled = 4096;  // bytes of the raw client's region

void add_header_forms(Refusals& refusals) {
  const ControlBlock nop = refusals.addressed(BlockBuilder::nop());
  refusals.add_spoilt("magic", nop, Status::BadMagic, [](auto& b) { b.header.magic ^= 0x100; });
  refusals.add_spoilt("length/none", nop, Status::BadSize, [](auto& b) { b.header.sticks = 0; });
  refusals.add_spoilt("length/255", nop, Status::BadSize, [](auto& b) { b.header.sticks = 255; });
  refusals.add_spoilt("length/of-another-opcode", nop, Status::BadSize, [](auto& b) { b.header.sticks = 4; });
  refusals.add_spoilt("generation", nop, Status::StaleGeneration, [](auto& b) { ++b.header.generation; });
  refusals.add_spoilt("stream/not-open", nop, Status::UnknownStream, [](auto& b) { b.header.stream = 99; });
  refusals.add_spoilt("stream/out-of-range", nop, Status::UnknownStream,
                      [](auto& b) { b.header.stream = 0x8000'0080; });
  refusals.add_spoilt("incarnation", nop, Status::StaleIncarnation, [](auto& b) { b.header.incarnation += 77; });
  refusals.add_spoilt("sequence", nop, Status::BadSequence, [](auto& b) { b.header.sequence += 1; });
  refusals.add_spoilt("flags", nop, Status::BadFlags, [](auto& b) { b.header.flags = 1; });
  refusals.add_spoilt("reserved/header-0", nop, Status::ReservedBits, [](auto& b) { b.header.reserved0 = 1u << 31; });
  refusals.add_spoilt("reserved/header-1", nop, Status::ReservedBits, [](auto& b) { b.header.reserved1 = 1; });
  refusals.add_spoilt("crc/not-negotiated", nop, Status::BadCrc, [](auto& b) { b.header.crc32c = 16; });
}

void add_payload_forms(Refusals& refusals, const BlockBuilder& builder) {
  const ControlBlock nop = refusals.addressed(BlockBuilder::nop());
  const ControlBlock dma = refusals.good_dma();
  const ControlBlock compute = refusals.addressed(builder.compute(0, 4096));
  refusals.add_spoilt("reserved/nop", nop, Status::ReservedBits, [](auto& b) { b.payload.words[7] = 1; });
  refusals.add_spoilt("reserved/fill", refusals.good_fill(), Status::ReservedBits,
                      [](auto& b) { b.payload.fill.reserved[0] = 1; });
  refusals.add_spoilt("reserved/endpoint", dma, Status::ReservedBits,
                      [](auto& b) { b.payload.dma.destination.reserved[2] = 1; });
  refusals.add_spoilt("reserved/host-endpoint", dma, Status::ReservedBits,
                      [](auto& b) { b.payload.dma.source.generation = 1; });
  refusals.add_spoilt("reserved/compute", compute, Status::ReservedBits,
                      [](auto& b) { b.payload.compute.reserved[6] = 1; });
  refusals.add_spoilt("reserved/segment", compute, Status::ReservedBits,
                      [](auto& b) { b.payload.compute.segments[7].reserved[0] = 1; });
  refusals.add_spoilt("truncated/compute", compute, Status::BadSize, [](auto& b) { b.header.sticks = 1; });
  refusals.add_spoilt("length/image-shorter-than-its-header", compute, Status::BadSize,
                      [](auto& b) { b.payload.compute.image_bytes = sizeof(wire::ImageHeader) - 1; });
  refusals.add_spoilt("length/image-too-long", compute, Status::BadSize,
                      [](auto& b) { b.payload.compute.image_bytes = wire::kMaxImageBytes + 1; });
  refusals.add_spoilt("checksum/without-its-flag", dma, Status::BadFlags, [](auto& b) { b.payload.dma.checksum = 1; });
  refusals.add_spoilt("checksum/out-of-the-card", dma, Status::BadFlags, [](auto& b) {
    std::swap(b.payload.dma.source, b.payload.dma.destination);
    b.payload.dma.flags = wire::kDmaChecksum;
    b.payload.dma.checksum = 1;
  });
  refusals.add_spoilt("ahead/out-of-the-card", dma, Status::BadFlags, [](auto& b) {
    std::swap(b.payload.dma.source, b.payload.dma.destination);
    b.payload.dma.flags = wire::kDmaAhead;
  });
  refusals.add_spoilt("ahead/too-long", dma, Status::BadFlags, [](auto& b) {
    b.payload.dma.flags = wire::kDmaAhead;
    b.payload.dma.bytes = wire::kMaxCorrectionBytes + 1;
  });
}

// Images in Program memory, each with one thing wrong. All but the last have the checksum of their bytes.
class Images {
 public:
  Images(ScenarioContext& context, Refusals& refusals)
      : context_(context), refusals_(refusals), good_(kernel_image(context.card(), "empty")) {}

  template <typename Spoil>
  void add(const char* name, Status status, Spoil spoil, bool sealed = true) {
    auto image = good_;
    wire::ImageHeader header;
    std::memcpy(&header, image.data(), sizeof header);
    spoil(header);
    std::memcpy(image.data(), &header, sizeof header);
    if (sealed) seal(image);
    load(name, image, status);
  }
  void add_damaged(const char* name, std::size_t at) {
    auto image = good_;
    image[at] ^= std::byte{1};
    load(name, image, Status::ImageCrc);
  }
  std::size_t last_byte() const { return good_.size() - 1; }

 private:
  static void seal(std::vector<std::byte>& image) {
    constexpr std::size_t kAt = offsetof(wire::ImageHeader, crc32c);
    std::uint32_t crc = 0;
    std::memcpy(image.data() + kAt, &crc, sizeof crc);
    crc = wire::crc32c(0, image.data(), image.size());
    std::memcpy(image.data() + kAt, &crc, sizeof crc);
  }
  void load(const char* name, std::span<const std::byte> image, Status status) {
    const std::uint64_t at = kImageAt + count_++ * kImageStride;
    load_image(context_.builder(), context_.stream(), at, image);
    refusals_.add(name, refusals_.addressed(context_.builder().compute(at, image.size())), status);
  }

  ScenarioContext& context_;
  Refusals& refusals_;
  std::vector<std::byte> good_;
  std::uint64_t count_ = 0;
};

void add_images(ScenarioContext& context, Refusals& refusals) {
  Images images(context, refusals);
  images.add("image/magic", Status::ImageMagic, [](auto& h) { h.magic ^= 1; });
  images.add("image/version", Status::ImageVersion, [](auto& h) { ++h.abi_version; });
  images.add("image/length", Status::ImageLayout, [](auto& h) { h.image_bytes -= 128; });
  images.add("image/reserved", Status::ImageLayout, [](auto& h) { h.reserved[39] = 1; });
  images.add("image/crc-wrong", Status::ImageCrc, [](auto& h) { ++h.crc32c; }, false);
  images.add_damaged("image/crc-of-its-text", sizeof(wire::ImageHeader));
  images.add_damaged("image/crc-of-its-last-byte", images.last_byte());
}

// The bytes of a transfer have a checksum of their own. They are moved before they can be compared: a fault, no
// refusal.
void claim_payload_checksum(ScenarioContext& context) {
  BlockBuilder& builder = context.builder();
  const auto words = builder.host_words(0, kFormBytes);
  for (auto& word : words) word = context.random()();
  ControlBlock copy = BlockBuilder::dma(builder.host(0), builder.program(kMovedTo), kFormBytes);
  copy.payload.dma.flags = wire::kDmaChecksum;
  copy.payload.dma.checksum = wire::crc32c(0, words.data(), words.size_bytes());
  const auto right = context.stream().run(copy, context.timeout());
  context.claim(Proof::Contained, "checksum/right", right && right->outcome == Outcome::Ok, ending(right));
  (void)context.stream().reset();
  copy.payload.dma.checksum ^= 1;
  const auto wrong = context.stream().run(copy, context.timeout());
  context.claim(Proof::Detected, "checksum/wrong",
                wrong && wrong->outcome == Outcome::Fault && wrong->status == Status::ChecksumMismatch, ending(wrong));
  (void)context.stream().reset();
}

// A function that negotiated a CRC on each control block: a raw client, because our driver does not.
class SealedBlocks {
 public:
  SealedBlocks(ScenarioContext& context, RawClient& client)
      : context_(context), driver_(client.driver()), region_(driver_.acquire(wire::kGranuleBytes).value()) {}

  ControlBlock good() { return driver_.fill(stream_, region_, 0, kFilled, pattern_); }
  void accepted(const char* name) {
    const auto end = driver_.run(good());
    context_.claim(Proof::Contained, name, end.outcome == Outcome::Ok, ending(end));
    (void)driver_.reset_stream(stream_);
  }
  template <typename Spoil>
  void refused(const char* name, Status status, Spoil spoil) {
    ControlBlock block = good();
    spoil(block);
    refused_sticks(name, status, block, block.header.sticks);
  }
  // The chain carries another number of sticks than the header says.
  void refused_sticks(const char* name, Status status, const ControlBlock& block, unsigned sticks) {
    (void)driver_.submit_sticks(block, sticks);
    const auto end = driver_.wait_for(1).front().completion;
    context_.claim(Proof::Detected, name, end.outcome == Outcome::Rejected && end.status == status, ending(end));
    (void)driver_.reset_stream(stream_);
  }
  // What the first good block wrote is still there.
  bool unchanged() {
    const std::uint64_t at = wire::kHostMemoryOffset;
    const auto copy = driver_.run(driver_.dma(stream_, RawDriver::device(region_, 0), RawDriver::host(at), kFilled));
    const auto* words = driver_.at<std::uint64_t>(at);
    return copy.outcome == Outcome::Ok &&
           std::all_of(words, words + kFilled / 8, [&](std::uint64_t word) { return word == pattern_; });
  }

 private:
  ScenarioContext& context_;
  RawDriver& driver_;
  raw::RegionHandle region_;
  raw::StreamHandle stream_;
  std::uint64_t pattern_ = context_.seed() | 1;
};

void claim_block_checksum(ScenarioContext& context, RawClient& client) {
  if (!client.driver().bring_up(wire::kMandatoryFeatures | wire::kFeatureControlBlockCrc)) {
    return context.fired(false, "a function with CRCs does not come up");
  }
  SealedBlocks blocks(context, client);
  blocks.accepted("crc/right");
  blocks.refused("crc/one-bit", Status::BadCrc, [](auto& b) { b.header.crc32c ^= 1u << 31; });
  blocks.refused("crc/none", Status::BadCrc, [](auto& b) { b.header.crc32c = 0; });
  blocks.refused("crc/of-another-header", Status::BadCrc, [](auto& b) { ++b.header.cookie; });
  blocks.refused("crc/of-another-payload", Status::BadCrc, [](auto& b) { ++b.payload.fill.pattern; });
  ControlBlock longer = blocks.good();
  longer.header.sticks = 4;
  blocks.refused_sticks("truncated/chain", Status::BadSize, longer, 1);
  blocks.refused_sticks("length/chain-too-long", Status::BadSize, blocks.good(), 2);
  context.claim(Proof::Contained, "crc/no-effect", blocks.unchanged(), "memory was written");
}

}  // namespace

void bad_forms(ScenarioContext& context) {
  Refusals refusals(context);
  RawClient client(context);
  add_header_forms(refusals);
  add_payload_forms(refusals, context.builder());
  add_images(context, refusals);
  (void)context.stream().reset();  // the blocks are the first of their incarnation
  context.trigger();
  refusals.send_all();
  claim_payload_checksum(context);
  claim_block_checksum(context, client);
  refusals.finish();
}

}  // namespace svp::campaign
