// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/counts/worst_quanta.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "qemu/card.hpp"
#include "tests/support/buffer_entry.hpp"
#include "tests/support/kernel_image.hpp"

namespace counts {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::ControlBlock;
using wire::Outcome;

namespace {

raw::BareSlot open_slot(CountingCard& card, unsigned index) {
  auto handle = card.context().card().machine().slot(index);
  if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
  return raw::BareSlot(*std::move(handle));
}

}  // namespace

Client::Client(CountingCard& card, unsigned index)
    : slot(open_slot(card, index)), driver(slot.window(), [this] {
        slot.pump();
        meanwhile();
      }) {}

WorstQuanta::WorstQuanta() {
  for (Client* client : {&manager_, &tenant_, &other_}) EXPECT_TRUE(client->driver.bring_up());
  region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
  StreamHandle waiting = other_.driver.open_stream().value();
  constexpr std::uint64_t kLong = 3600 * wire::kTicksPerSecond;
  other_.driver.submit(other_.driver.event_wait(waiting, other_stream_, 1, kLong));
  for (Client* client : {&manager_, &tenant_}) client->meanwhile = [this] { keep_neighbour_busy(); };
}

void WorstQuanta::expect_bounded_at_once(const std::string& what, const std::function<void()>& work,
                                         std::uint64_t most) {
  const std::uint64_t blocks_before = neighbours_blocks_;
  const std::uint64_t longest = card_.longest_iteration(work);
  EXPECT_GT(neighbours_blocks_, blocks_before) << what << ": no block of the neighbour ended meanwhile";
  fmt::print("{:<44} {:>8} instructions\n", what, longest);
  EXPECT_LT(longest, most) << what;
}

// ---- rings full of the same

void WorstQuanta::flood(RawDriver& driver, const std::function<wire::AdminRequest()>& make, unsigned requests,
                        Outcome expected) {
  while (requests != 0) {
    std::vector<std::uint16_t> slots;
    for (; requests != 0 && slots.size() < wire::kAdminSlots && driver.admin_slot_free(); --requests) {
      slots.push_back(driver.send_admin(make()));
    }
    for (const std::uint16_t slot : slots) {
      const auto reply = driver.wait_admin(slot);
      ASSERT_TRUE(reply.has_value());
      ASSERT_EQ(reply->outcome, expected) << wire::name(reply->status) << " " << wire::name(reply->field);
    }
  }
}

void WorstQuanta::flood_blocks(const std::function<ControlBlock()>& make) {
  constexpr unsigned kRounds = 8, kBlocks = 100;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (unsigned i = 0; i < kBlocks; ++i) tenant_.driver.submit(make());
    expect_all_ok(kBlocks);
  }
}

void WorstQuanta::flood_queues(const std::function<ControlBlock(StreamHandle&)>& block,
                               const std::function<wire::AdminRequest()>& command, Outcome of_command) {
  RawDriver& driver = tenant_.driver;
  std::array<StreamHandle, 4> streams;
  for (std::size_t i = 1; i < streams.size(); ++i) streams[i] = driver.open_stream().value();
  constexpr unsigned kRounds = 8, kBlocks = 360, kBlocksPerCommand = kBlocks / wire::kAdminSlots;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::vector<std::uint16_t> slots;
    slots.reserve(wire::kAdminSlots);
    for (unsigned i = 0; i < kBlocks; ++i) {
      driver.submit(block(streams[i % streams.size()]));
      if (i % kBlocksPerCommand == 0 && slots.size() < wire::kAdminSlots) slots.push_back(driver.send_admin(command()));
    }
    for (const std::uint16_t slot : slots) {
      const auto reply = driver.wait_admin(slot);
      ASSERT_TRUE(reply.has_value());
      ASSERT_EQ(reply->outcome, of_command) << wire::name(reply->status) << " " << wire::name(reply->field);
    }
    expect_all_ok(kBlocks);
  }
  begin_again();
}

void WorstQuanta::flood_messages(const std::function<wire::Message()>& make, unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    const wire::Message last = make();
    for (unsigned i = 1; i < wire::kFifoSlots; ++i) tenant_.driver.send(make());
    // The answers come in order; those of the others are passed over.
    ASSERT_TRUE(tenant_.driver.call(last).has_value());
  }
}

void WorstQuanta::expect_all_ok(std::size_t blocks) {
  const auto ended = tenant_.driver.wait_for(blocks);
  ASSERT_EQ(ended.size(), blocks);
  for (const raw::Ended& end : ended) {
    ASSERT_EQ(end.completion.outcome, Outcome::Ok) << wire::name(end.completion.status);
  }
}

// ---- states

wire::AdminRequest WorstQuanta::about(AdminCommand command, wire::Target target) const {
  auto request = manager_.driver.admin_request(command);
  request.arguments.function.target = target;
  return request;
}

wire::AdminReply WorstQuanta::expect_ok(RawDriver& driver, const wire::AdminRequest& request) const {
  const auto reply = driver.admin(request);
  EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(request.command) << ": " << wire::name(reply.status);
  return reply;
}

std::vector<StreamHandle> WorstQuanta::open_all() {
  std::vector<StreamHandle> streams;
  while (auto stream = tenant_.driver.open_stream()) streams.push_back(*stream);
  return streams;
}

void WorstQuanta::begin_again() {
  ASSERT_TRUE(tenant_.driver.bring_up());
  region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
  program_ = {};
}

void WorstQuanta::fill_stream(StreamHandle& stream, const StreamHandle& awaited) {
  RawDriver& driver = tenant_.driver;
  driver.submit(driver.event_wait(stream, awaited, 1'000'000));
  for (unsigned i = 1; i < wire::kStreamCredits && driver.block_slot_free(); ++i) driver.submit(driver.nop(stream));
  settle();
}

void WorstQuanta::wait_everywhere() {
  const StreamHandle zero;
  for (StreamHandle& stream : open_all()) tenant_.driver.submit(tenant_.driver.event_wait(stream, zero, 1));
  settle();
}

raw::RegionHandle WorstQuanta::program() {
  if (program_.bytes == 0) program_ = tenant_.driver.acquire(32 * wire::kMiB, wire::RegionType::Program).value();
  return program_;
}

std::vector<std::byte> WorstQuanta::empty_kernel() const { return svp::test::kernel_image(card_.card(), "empty"); }

void WorstQuanta::load(std::uint64_t offset, std::span<const std::byte> image) {
  RawDriver& driver = tenant_.driver;
  std::memcpy(driver.at<std::byte>(kSource), image.data(), image.size());
  StreamHandle stream = driver.open_stream().value();
  const auto end =
      driver.run(driver.dma(stream, RawDriver::host(kSource), RawDriver::device(program(), offset), image.size()));
  ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
  (void)driver.admin(driver.stream_request(AdminCommand::StreamClose, stream));
}

ControlBlock WorstQuanta::launch(StreamHandle& stream, std::uint64_t offset, std::uint64_t bytes) {
  ControlBlock block = tenant_.driver.compute(stream, program(), offset, bytes, 0);
  for (unsigned i = 0; i < wire::kSegments; ++i) {
    block.payload.compute.segments[i] = {region_.id,         i * wire::kMiB / 4,      wire::kMiB / 4,
                                         region_.generation, wire::kSegmentReadWrite, {}};
  }
  tenant_.driver.seal(block);
  return block;
}

ControlBlock WorstQuanta::deepest_nest(StreamHandle& stream) {
  std::array<wire::StridedLevel, wire::kStridedLevels> levels{};
  std::int64_t stride = 2;
  for (wire::StridedLevel& level : levels) {
    level = {.count = 2, .source_stride = stride, .destination_stride = stride};
    stride *= 3;  // nothing follows on what the level inside has moved
  }
  return tenant_.driver.strided(stream, RawDriver::device(region_, 0), RawDriver::device(region_, 2 * wire::kMiB), 1,
                                levels);
}

void WorstQuanta::write_buffer(const ControlBlock& block, std::uint32_t blocks) {
  const ControlBlock entry = svp::test::buffer_entry(block);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    std::memcpy(tenant_.driver.at<std::byte>(kSource + i * sizeof entry), &entry, sizeof entry);
  }
}

BufferName WorstQuanta::make_buffer(const ControlBlock& block, std::uint32_t blocks, std::uint32_t data_bytes) {
  write_buffer(block, blocks);
  auto create = request(AdminCommand::BufferCreate);
  create.arguments.buffer_create = {kSource, blocks, data_bytes};
  return expect_ok(tenant_.driver, create).values.buffer;
}

void WorstQuanta::destroy(const BufferName& buffer) {
  auto destroy = request(AdminCommand::BufferDestroy);
  destroy.arguments.buffer_destroy = {buffer.buffer, 0, buffer.epoch};
  (void)expect_ok(tenant_.driver, destroy);
}

ControlBlock WorstQuanta::call_of(StreamHandle& stream, const BufferName& buffer, wire::Opcode opcode) {
  ControlBlock call{};
  call.header.opcode = opcode;
  call.payload.call = {
      .buffer = buffer.buffer, .reserved0 = 0, .epoch = buffer.epoch, .signal_base = 0, .reserved = {}};
  return tenant_.driver.addressed(stream, call);
}

ControlBlock WorstQuanta::patch_of(StreamHandle& stream, const BufferName& buffer) {
  ControlBlock patch{};
  patch.header.opcode = wire::Opcode::Patch;
  patch.payload.patch = {.buffer = buffer.buffer,
                         .block = 0,
                         .epoch = buffer.epoch,
                         .offset = kSource,
                         .bytes = wire::kBufferBlockBytes,
                         .reserved = {}};
  return tenant_.driver.addressed(stream, patch);
}

void WorstQuanta::change_regions() { (void)tenant_.driver.release(tenant_.driver.acquire(2 * wire::kMiB).value()); }

void WorstQuanta::keep_neighbour_busy() {
  neighbours_blocks_ += other_.driver.collect().size();
  if (other_.driver.blocks_under_way() == 1) other_.driver.submit(other_.driver.nop(other_stream_));
}

}  // namespace counts
