// SPDX-License-Identifier: Apache-2.0
// Command buffers: what they run and how it ends, everything that can be wrong with them once, and what becomes of them
// with regions, images, streams and functions.
#include "firmware/core/command_buffers.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "firmware/hal/address_space.hpp"
#include "tests/support/buffer_entry.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Launch;
using fwtest::Program;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::Completion;
using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kSource = wire::kHostMemoryOffset + wire::kMiB;  // of buffers and patches
constexpr std::uint64_t kMax = ~std::uint64_t{0};

struct Buffer {
  std::uint32_t id = 0;
  std::uint64_t epoch = 0;
};

class CommandBuffers : public Launch {
 protected:
  explicit CommandBuffers(std::uint64_t page_bytes = 1024 * wire::kMiB) : Launch(1, page_bytes) {
    tensor_ = driver_.acquire(4 * wire::kMiB).value();
    free_pages_ = card_.board().pages_in_use();
  }

  // ---- blocks of a buffer

  static ControlBlock entry(const ControlBlock& block) { return svp::test::buffer_entry(block); }
  ControlBlock launch(Program program) { return entry(block(scratch_, program)); }
  ControlBlock fill(std::uint64_t offset, std::uint64_t bytes, std::uint64_t pattern) {
    return entry(driver_.fill(scratch_, tensor_, offset, bytes, pattern));
  }
  ControlBlock nop() { return entry(driver_.nop(scratch_)); }
  ControlBlock signal(std::uint64_t value) { return entry(driver_.event_signal(scratch_, value)); }
  // With its correction tensor at `offset` of the buffer's data.
  ControlBlock with_tensor(Program program, std::uint64_t bytes, std::uint64_t offset = 0) {
    ControlBlock compute = launch(program);
    compute.payload.compute.correction = {0, offset, 0, wire::EndpointKind::BufferData, {}};
    compute.payload.compute.correction_bytes = bytes;
    return compute;
  }

  // ---- commands

  static void write(RawDriver& driver, const std::vector<ControlBlock>& blocks,
                    const std::vector<std::uint64_t>& data) {
    std::memcpy(driver.at<std::byte>(kSource), blocks.data(), blocks.size() * sizeof(ControlBlock));
    if (data.empty()) return;
    std::memcpy(driver.at<std::byte>(kSource + blocks.size() * sizeof(ControlBlock)), data.data(), data.size() * 8);
  }
  static wire::AdminReply create(RawDriver& driver, const std::vector<ControlBlock>& blocks,
                                 const std::vector<std::uint64_t>& data = {}) {
    write(driver, blocks, data);
    auto request = driver.admin_request(AdminCommand::BufferCreate);
    request.arguments.buffer_create = {kSource, static_cast<std::uint32_t>(blocks.size()),
                                       static_cast<std::uint32_t>(data.size() * 8)};
    return driver.admin(request);
  }
  Buffer make(const std::vector<ControlBlock>& blocks, const std::vector<std::uint64_t>& data = {}) {
    const auto reply = create(driver_, blocks, data);
    EXPECT_EQ(reply.outcome, Outcome::Ok)
        << wire::name(reply.status) << " " << wire::name(reply.field) << " of block " << reply.values.buffer.block;
    return {reply.values.buffer.buffer, reply.values.buffer.epoch};
  }
  wire::AdminReply destroy(const Buffer& buffer) {
    auto request = driver_.admin_request(AdminCommand::BufferDestroy);
    request.arguments.buffer_destroy = {buffer.id, 0, buffer.epoch};
    return driver_.admin(request);
  }
  static std::vector<std::uint64_t> tensor_of(std::uint64_t first_word, std::size_t words = 16) {
    std::vector<std::uint64_t> tensor(words);
    tensor[0] = first_word;
    return tensor;
  }

  // ---- blocks of the ring

  ControlBlock call(StreamHandle& stream, const Buffer& buffer, Opcode opcode = Opcode::Call,
                    std::uint64_t signal_base = 0) {
    ControlBlock block = driver_.nop(stream);
    block.header.opcode = opcode;
    block.payload.call = {buffer.id, 0, buffer.epoch, signal_base, {}};
    driver_.seal(block);
    return block;
  }
  ControlBlock prepared(const Buffer& buffer) { return call(stream_, buffer, Opcode::Prepared); }
  ControlBlock patch(StreamHandle& stream, const Buffer& buffer, std::uint32_t index, const ControlBlock& with,
                     const std::vector<std::uint64_t>& tensor = {}) {
    write(driver_, {with}, tensor);
    ControlBlock block = driver_.nop(stream);
    block.header.opcode = Opcode::Patch;
    block.payload.patch = {buffer.id, index, buffer.epoch, kSource, sizeof(ControlBlock) + tensor.size() * 8, {}};
    driver_.seal(block);
    return block;
  }

  Completion run_block(const ControlBlock& block) {
    driver_.submit(block);
    return wait();
  }
  // The next one that ends; cores work meanwhile.
  Completion wait() {
    for (int i = 0; i < 1000; ++i) {
      card_.run_until_idle();
      for (const auto& one : driver_.collect()) ended_.push_back(one.completion);
      if (!ended_.empty()) {
        const Completion first = ended_.front();
        ended_.erase(ended_.begin());
        return first;
      }
      slice();
    }
    ADD_FAILURE() << "it never ended";
    return {};
  }
  void expect_ok(const Completion& end) {
    EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status) << " " << wire::name(end.field) << " of block "
                                        << end.block;
  }
  void expect_end(const Completion& end, Outcome outcome, Status status, Field field = Field::None,
                  std::uint32_t block = 0) {
    EXPECT_EQ(end.outcome, outcome) << wire::name(end.outcome);
    EXPECT_EQ(end.status, status) << wire::name(end.status);
    EXPECT_EQ(end.field, field) << wire::name(end.field);
    EXPECT_EQ(end.block, block);
  }
  void reset_stream() { ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok); }
  std::uint64_t word_at(std::uint64_t offset) {
    StreamHandle reader = driver_.open_stream().value();
    expect_ok(run_block(driver_.dma(reader, RawDriver::device(tensor_, offset),
                                    RawDriver::host(wire::kHostMemoryOffset), wire::kStickBytes)));
    EXPECT_EQ(driver_.admin(driver_.stream_request(AdminCommand::StreamClose, reader)).outcome, Outcome::Ok);
    std::uint64_t word;
    std::memcpy(&word, driver_.at<std::byte>(wire::kHostMemoryOffset), sizeof word);
    return word;
  }
  std::uint32_t buffers() { return card_.function(2).buffers.count(); }

  StreamHandle scratch_;  // addresses of blocks that a buffer is made of: they are wiped
  RegionHandle tensor_{};
  std::uint64_t free_pages_ = 0;
  std::vector<Completion> ended_;
};

// ---- what they run --------------------------------------------------------------------------------------------------

TEST_F(CommandBuffers, APreparedLaunchEndsAsTheSameLaunchOfTheRing) {
  for (const bool at_once : {false, true}) {
    card_.card().first_slices.allow(at_once);
    for (const auto program : {Program::Exit, Program::ExitWithFive, Program::Strays, Program::Barriers,
                               Program::Touches, Program::Endless}) {
      const auto usual = run(program);
      if (usual.outcome != Outcome::Ok) reset_stream();
      const Buffer buffer = make({launch(program)});
      for (int i = 0; i < 3; ++i) {
        const auto end = run_block(prepared(buffer));
        EXPECT_EQ(end.outcome, usual.outcome);
        EXPECT_EQ(end.status, usual.status) << wire::name(end.status);
        EXPECT_EQ(std::memcmp(&end.fault, &usual.fault, sizeof end.fault), 0);
        EXPECT_NE(end.start_time, 0u);
        EXPECT_EQ(end.sequence, stream_.next_sequence - 1);
        if (usual.outcome != Outcome::Ok) reset_stream();
      }
      EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
    }
  }
}

TEST_F(CommandBuffers, AKernelGetsTheCorrectionTensorOfItsOwnBlock) {
  for (const bool at_once : {false, true}) {
    card_.card().first_slices.allow(at_once);
    const Buffer seven = make({with_tensor(Program::TellsCorrection, 128)}, tensor_of(7));
    const Buffer nine = make({with_tensor(Program::TellsCorrection, 128)}, tensor_of(9));
    // One of the ring, in the same context.
    const auto of_ring = [&](std::uint64_t word) {
      expect_ok(run_block(driver_.fill(stream_, programs_, wire::kMiB, 128, word)));
      ControlBlock compute = block(stream_, Program::TellsCorrection);
      compute.payload.compute.correction = RawDriver::device(programs_, wire::kMiB);
      compute.payload.compute.correction_bytes = 128;
      return run_block(compute).fault.argument;
    };
    const auto told = [&](const Buffer& buffer) {
      const auto end = run_block(prepared(buffer));
      EXPECT_EQ(end.status, Status::KernelStatus);
      reset_stream();
      return end.fault.argument;
    };
    EXPECT_EQ(told(seven), 7u);
    EXPECT_EQ(told(seven), 7u);
    EXPECT_EQ(told(nine), 9u);
    EXPECT_EQ(of_ring(3), 3u);
    reset_stream();
    EXPECT_EQ(told(nine), 9u);
    EXPECT_EQ(told(seven), 7u);
  }
}

TEST_F(CommandBuffers, BlocksOfEveryKindRunInOrderAndEndOnce) {
  card_.card().first_slices.allow(true);
  const wire::StridedLevel levels[] = {{16, 1, 2}, {4, 16, 64}};
  const auto strided =
      entry(driver_.strided(scratch_, RawDriver::device(tensor_, 0), RawDriver::device(tensor_, 4096), 8, levels));
  const Buffer buffer =
      make({nop(), fill(0, 512, 0x1111), strided,
            entry(driver_.dma(scratch_, RawDriver::device(tensor_, 4096), RawDriver::device(tensor_, 8192), 128)),
            launch(Program::Exit), signal(2), launch(Program::Touches), fill(0, 128, 0x2222)});
  const auto launches = card_.function(2).counters().launches;
  const auto completed = card_.function(2).counters().completed;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto end = run_block(call(stream_, buffer, Opcode::Call, 10 * i));
    expect_end(end, Outcome::Ok, Status::None, Field::None, 7);
    EXPECT_EQ(end.bytes, 512u + 512 + 128 + 128);
    EXPECT_NE(end.start_time, 0u);
    EXPECT_EQ(card_.function(2).counters().launches, launches + 2 * i);
    EXPECT_EQ(card_.function(2).counters().completed, completed + i);
    EXPECT_EQ(card_.function(2).streams.timeline(0).value(), 10 * i + 2);
  }
  EXPECT_EQ(word_at(0), 0x2222u);
  EXPECT_EQ(word_at(8192), 0x1111u) << "what the strided one wrote";
}

TEST_F(CommandBuffers, TheBlockThatFailsIsNamedAndNoneBehindItRuns) {
  const Buffer buffer = make({fill(0, 128, 1), launch(Program::ExitWithFive), fill(0, 128, 2)});
  const auto end = run_block(call(stream_, buffer));
  expect_end(end, Outcome::Fault, Status::KernelStatus, Field::None, 1);
  EXPECT_EQ(end.fault.argument, 5u);
  EXPECT_EQ(end.bytes, 128u);
  EXPECT_EQ(run_block(driver_.nop(stream_)).status, Status::StreamPoisoned);
  reset_stream();
  EXPECT_EQ(word_at(0), 1u);
}

TEST_F(CommandBuffers, ACallIsConsumedBlockByBlock) {
  std::vector<ControlBlock> blocks(60);
  for (std::uint64_t i = 0; i < 60; ++i) blocks[i] = fill(i * 128, 128, i + 1);
  const Buffer buffer = make(blocks);
  driver_.submit(call(stream_, buffer));
  fw::Function& function = card_.function(2);
  ASSERT_TRUE(fw::fetch_blocks(card_.card(), function, 1));
  for (std::uint64_t i = 0; i < 59; ++i) {
    EXPECT_EQ(function.streams.head(0).call.index, i);
    ASSERT_TRUE(fw::run_streams(card_.card(), function, 1, fw::charged_so_far(card_.card(), function)));
    EXPECT_TRUE(driver_.collect().empty());
  }
  ASSERT_TRUE(fw::run_streams(card_.card(), function, 1, fw::charged_so_far(card_.card(), function)));
  EXPECT_EQ(driver_.collect().size(), 1u);
}

TEST_F(CommandBuffers, OtherStreamsRunBesideACall) {
  const Buffer buffer = make({launch(Program::UntilReleased), nop()});
  StreamHandle other = driver_.open_stream().value();
  driver_.submit(call(stream_, buffer));
  driver_.submit(call(other, make({nop(), nop()})));
  const auto first = wait();
  EXPECT_EQ(first.stream, other.id);
  kernels_.released = true;
  EXPECT_EQ(wait().stream, stream_.id);
}

// ---- being made ----------------------------------------------------------------------------------------------------

class BuffersInTheMaking : public CommandBuffers {
 protected:
  // Asks for as many fills as a buffer may have, the first one of `first`, and lets the card judge some of them.
  void begin(const RegionHandle& first) {
    const Buffer known = make({nop()});
    next_ = {known.id + 1, known.epoch + 1};
    std::vector<ControlBlock> blocks(wire::kMaxBufferBlocks, fill(0, 128, 1));
    blocks[0] = entry(driver_.fill(scratch_, first, 0, 128, 2));
    write(driver_, blocks, {});
    auto request = driver_.admin_request(AdminCommand::BufferCreate);
    request.arguments.buffer_create = {kSource, wire::kMaxBufferBlocks, 0};
    slot_ = driver_.send_admin(request);
    fw::run_iteration(card_.card());
    ASSERT_FALSE(driver_.take_admin(slot_)) << "it was made in one iteration";
  }
  wire::AdminReply finish() { return driver_.wait_admin(slot_).value(); }

  Buffer next_;  // what the buffer will be called
  std::uint16_t slot_ = 0;
};

TEST_F(BuffersInTheMaking, AreFoundByNobodyAndThenWhole) {
  begin(tensor_);
  driver_.submit(call(stream_, next_));
  fw::run_iteration(card_.card());
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 1u);
  expect_end(ended[0].completion, Outcome::Rejected, Status::UnknownCommandBuffer, Field::CallBuffer, 0);
  const auto reply = finish();
  EXPECT_EQ(reply.outcome, Outcome::Ok);
  EXPECT_EQ(reply.values.buffer.buffer, next_.id);
  EXPECT_EQ(reply.values.buffer.epoch, next_.epoch);
  reset_stream();
  expect_ok(run_block(call(stream_, next_)));
}

TEST_F(BuffersInTheMaking, AreJudgedAgainWhenRegionsChangeMeanwhile) {
  const RegionHandle first = driver_.acquire(2 * wire::kMiB).value();
  begin(first);
  (void)driver_.release(first);
  EXPECT_EQ(finish().outcome, Outcome::Ok) << "its first block was in order when it was judged";
  const auto end = run_block(call(stream_, next_));
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.field, Field::FillDestination);
}

TEST_F(BuffersInTheMaking, GoWithTheQueueThatAskedForThem) {
  const std::uint64_t pages = card_.board().pages_in_use();
  begin(tensor_);
  EXPECT_GT(card_.board().pages_in_use(), pages);
  ASSERT_TRUE(driver_.reset_queue(wire::kAdminQueue));
  EXPECT_EQ(card_.function(2).buffers.count(), 1u) << "the one that was made before";
}

TEST_F(BuffersInTheMaking, AreManyAtATimeAndAllEnd) {
  std::vector<std::uint16_t> slots;
  write(driver_, std::vector<ControlBlock>(wire::kMaxBufferBlocks, fill(0, 128, 1)), {});
  auto request = driver_.admin_request(AdminCommand::BufferCreate);
  request.arguments.buffer_create = {kSource, wire::kMaxBufferBlocks, 0};
  for (unsigned i = 0; i < wire::kAdminSlots && driver_.admin_slot_free(); ++i) {
    slots.push_back(driver_.send_admin(request));
  }
  for (const std::uint16_t slot : slots) EXPECT_EQ(driver_.wait_admin(slot).value().outcome, Outcome::Ok);
  EXPECT_EQ(card_.function(2).buffers.count(), slots.size());
}

// ---- events ---------------------------------------------------------------------------------------------------------

TEST_F(CommandBuffers, WaitsAndSignalsOfACallOrderStreams) {
  StreamHandle other = driver_.open_stream().value();
  const Buffer waits = make({entry(driver_.event_wait(scratch_, other, 4)), fill(0, 128, 2), signal(1)});
  driver_.submit(driver_.fill(stream_, tensor_, 0, 128, 1));
  driver_.submit(call(stream_, waits, Opcode::Call, 100));
  expect_ok(wait());
  card_.run_until_idle();
  EXPECT_TRUE(driver_.collect().empty()) << "the wait was not held";
  expect_ok(run_block(call(other, make({signal(1)}), Opcode::Call, 3)));
  const auto end = wait();
  expect_ok(end);
  EXPECT_EQ(end.stream, stream_.id);
  EXPECT_EQ(card_.function(2).streams.timeline(0).value(), 101u);
  EXPECT_EQ(word_at(0), 2u);
}

TEST_F(CommandBuffers, ACycleThatCallsCloseIsFound) {
  StreamHandle other = driver_.open_stream().value();
  const Buffer a = make({entry(driver_.event_wait(scratch_, other, 1)), signal(1)});
  const Buffer b = make({entry(driver_.event_wait(scratch_, stream_, 1)), signal(1)});
  driver_.submit(call(stream_, a));
  driver_.submit(call(other, b));
  const Completion ends[] = {wait(), wait()};
  unsigned cycles = 0;
  for (const auto& end : ends) {
    EXPECT_NE(end.outcome, Outcome::Ok);
    cycles += end.status == Status::EventDeadlock;
  }
  EXPECT_EQ(cycles, 1u);
}

TEST_F(CommandBuffers, AWaitThatFailsInTheMiddleOfACallIsAFault) {
  StreamHandle other = driver_.open_stream().value();
  const Buffer buffer = make({nop(), entry(driver_.event_wait(scratch_, other, 4))});
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  ASSERT_EQ(driver_.reset_stream(other).outcome, Outcome::Ok);
  expect_end(wait(), Outcome::Fault, Status::EventFailed, Field::EventStream, 1);
}

// ---- everything wrong once ------------------------------------------------------------------------------------------

TEST_F(CommandBuffers, EachFieldOfACreateIsChecked) {
  const auto window = driver_.window().size();
  const auto refused = [&](std::uint64_t offset, std::uint32_t blocks, std::uint32_t data, Status status, Field field) {
    write(driver_, {nop(), nop()}, {});
    auto request = driver_.admin_request(AdminCommand::BufferCreate);
    request.arguments.buffer_create = {offset, blocks, data};
    const auto reply = driver_.admin(request);
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field) << wire::name(reply.field);
  };
  refused(kSource, 0, 0, Status::BadCount, Field::AdminBlocks);
  refused(kSource, wire::kMaxBufferBlocks + 1, 0, Status::BadCount, Field::AdminBlocks);
  refused(kSource, ~0u, 0, Status::BadCount, Field::AdminBlocks);
  refused(kSource, 1, wire::kMaxBufferDataBytes + 128, Status::BadSize, Field::AdminBytes);
  refused(kSource, 1, ~0u, Status::BadSize, Field::AdminBytes);
  refused(kSource, 1, 64, Status::BadSize, Field::AdminBytes);
  refused(kSource + 8, 1, 0, Status::BadAlignment, Field::AdminSource);
  refused(0, 1, 0, Status::NotHostMemory, Field::AdminSource);
  refused(wire::kControlBlocks.offset, 1, 0, Status::NotHostMemory, Field::AdminSource);
  refused(wire::kHostMemoryOffset - 128, 1, 0, Status::NotHostMemory, Field::AdminSource);
  refused(window - 512 + 128, 1, 0, Status::NotHostMemory, Field::AdminSource);
  refused(window - 512, 1, 128, Status::NotHostMemory, Field::AdminSource);
  refused(kMax - 127, 1, 0, Status::NotHostMemory, Field::AdminSource);
  EXPECT_EQ(buffers(), 0u);
  EXPECT_EQ(card_.board().pages_in_use(), free_pages_);
}

TEST_F(CommandBuffers, EachBlockOfABufferIsJudgedAndTheBadOneNamed) {
  struct Bad {
    const char* what;
    ControlBlock block;
    std::function<void(ControlBlock&)> spoil;
    Status status;
    Field field;
  };
  const ControlBlock compute = with_tensor(Program::Exit, 256);
  const auto host =
      entry(driver_.dma(scratch_, RawDriver::host(wire::kHostMemoryOffset), RawDriver::device(tensor_, 0), 128));
  const auto correction = [](ControlBlock& b) -> wire::Endpoint& { return b.payload.compute.correction; };
  const std::vector<Bad> cases{
      {"magic", nop(), [](auto& b) { b.header.magic ^= 1; }, Status::BadMagic, Field::Magic},
      {"sticks", nop(), [](auto& b) { b.header.sticks = 2; }, Status::BadSize, Field::Sticks},
      {"flags", nop(), [](auto& b) { b.header.flags = 1; }, Status::BadFlags, Field::Flags},
      {"stream", nop(), [](auto& b) { b.header.stream = 1; }, Status::ReservedBits, Field::Reserved},
      {"incarnation", nop(), [](auto& b) { b.header.incarnation = 1; }, Status::ReservedBits, Field::Reserved},
      {"generation", nop(), [](auto& b) { b.header.generation = 1; }, Status::ReservedBits, Field::Reserved},
      {"sequence", nop(), [](auto& b) { b.header.sequence = 1; }, Status::ReservedBits, Field::Reserved},
      {"cookie", nop(), [](auto& b) { b.header.cookie = 1; }, Status::ReservedBits, Field::Reserved},
      {"CRC", nop(), [](auto& b) { b.header.crc32c = 1; }, Status::BadCrc, Field::Crc},
      {"payload of a NOP", nop(), [](auto& b) { b.payload.words[3] = 1; }, Status::ReservedBits, Field::Reserved},
      {"bytes behind the block", nop(), [](auto& b) { b.payload.words[50] = 1; }, Status::ReservedBits,
       Field::Reserved},
      {"CALL", nop(), [](auto& b) { b.header.opcode = Opcode::Call; }, Status::Unsupported, Field::OpcodeField},
      {"PREPARED", nop(), [](auto& b) { b.header.opcode = Opcode::Prepared; }, Status::Unsupported, Field::OpcodeField},
      {"PATCH", nop(), [](auto& b) { b.header.opcode = Opcode::Patch; }, Status::Unsupported, Field::OpcodeField},
      {"opcode", nop(), [](auto& b) { b.header.opcode = static_cast<Opcode>(99); }, Status::BadOpcode,
       Field::OpcodeField},
      {"fill of nothing", fill(0, 128, 0), [](auto& b) { b.payload.fill.bytes = 0; }, Status::BadSize,
       Field::FillBytes},
      {"fill of an old region", fill(0, 128, 0), [](auto& b) { ++b.payload.fill.destination.generation; },
       Status::StaleRegion, Field::FillDestination},
      {"fill over the end", fill(0, 128, 0), [](auto& b) { b.payload.fill.destination.offset = 4 * wire::kMiB; },
       Status::OutOfBounds, Field::FillDestination},
      {"dma from the window's header", host, [](auto& b) { b.payload.dma.source.offset = 0; }, Status::NotHostMemory,
       Field::DmaSource},
      {"event without a value", signal(1), [](auto& b) { b.payload.event.value = 0; }, Status::EventRegressed,
       Field::EventValue},
      {"cores that do not exist", compute, [](auto& b) { b.payload.compute.core_mask = 1u << 5; }, Status::BadCoreMask,
       Field::ComputeCoreMask},
      {"image of an unknown region", compute, [](auto& b) { b.payload.compute.image.region_id = 5; },
       Status::UnknownRegion, Field::ComputeImage},
      {"image in a tensor region", compute, [&](auto& b) { b.payload.compute.image = RawDriver::device(tensor_, 0); },
       Status::WrongRegionType, Field::ComputeImage},
      {"segment of an unknown region", compute,
       [](auto& b) { b.payload.compute.segments[3] = {6, 0, 128, 1, wire::kSegmentRead, {}}; }, Status::UnknownRegion,
       Field::ComputeSegment},
      {"tensor too large", compute, [](auto& b) { b.payload.compute.correction_bytes = wire::kMaxCorrectionBytes + 1; },
       Status::CorrectionTooLarge, Field::ComputeCorrectionBytes},
      {"tensor over the data's end", compute, [](auto& b) { b.payload.compute.correction_bytes = 257; },
       Status::OutOfBounds, Field::ComputeCorrection},
      {"tensor at the data's end", compute, [=](auto& b) { correction(b).offset = 256; }, Status::OutOfBounds,
       Field::ComputeCorrection},
      {"tensor that wraps", compute, [=](auto& b) { correction(b).offset = kMax - 127; }, Status::OutOfBounds,
       Field::ComputeCorrection},
      {"tensor between sticks", compute, [=](auto& b) { correction(b).offset = 8; }, Status::BadAlignment,
       Field::ComputeCorrection},
      {"tensor of a region", compute, [=](auto& b) { correction(b).region_id = 1; }, Status::ReservedBits,
       Field::ComputeCorrection},
      {"tensor of a generation", compute, [=](auto& b) { correction(b).generation = 1; }, Status::ReservedBits,
       Field::ComputeCorrection},
      {"tensor with reserved bytes", compute, [=](auto& b) { correction(b).reserved[1] = 1; }, Status::ReservedBits,
       Field::ComputeCorrection},
      {"tensor in host memory", compute, [=](auto& b) { correction(b).kind = wire::EndpointKind::HostMemory; },
       Status::BadEndpointKind, Field::ComputeCorrection},
      {"image in the buffer's data", compute,
       [](auto& b) { b.payload.compute.image.kind = wire::EndpointKind::BufferData; }, Status::BadEndpointKind,
       Field::ComputeImage},
      {"source in the buffer's data", host, [](auto& b) { b.payload.dma.source.kind = wire::EndpointKind::BufferData; },
       Status::BadEndpointKind, Field::DmaSource},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    ControlBlock spoilt = bad.block;
    ASSERT_EQ(destroy(make({nop(), spoilt, nop()}, std::vector<std::uint64_t>(32))).outcome, Outcome::Ok);
    bad.spoil(spoilt);
    const auto reply = create(driver_, {nop(), spoilt, nop()}, std::vector<std::uint64_t>(32));
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, bad.status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, bad.field) << wire::name(reply.field);
    EXPECT_EQ(reply.values.buffer.block, 1u);
    if (bad.field == Field::ComputeSegment) {
      EXPECT_EQ(reply.values.buffer.argument, 3u);
    }
  }
  EXPECT_EQ(buffers(), 0u);
  EXPECT_EQ(card_.board().pages_in_use(), free_pages_);
}

TEST_F(CommandBuffers, ATensorInTheBuffersDataIsForBlocksOfABufferOnly) {
  ControlBlock block = this->block(stream_, Program::Exit);
  block.payload.compute.correction = {0, 0, 0, wire::EndpointKind::BufferData, {}};
  block.payload.compute.correction_bytes = 128;
  expect_end(run_block(block), Outcome::Rejected, Status::BadEndpointKind, Field::ComputeCorrection);
}

TEST_F(CommandBuffers, EachFieldOfACallIsChecked) {
  const Buffer buffer = make({nop(), signal(5)});
  const Buffer one = make({launch(Program::Exit)});
  struct Bad {
    const char* what;
    Opcode opcode;
    std::function<void(ControlBlock&)> spoil;
    Status status;
    Field field;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"id", Opcode::Call, [](auto& b) { b.payload.call.buffer = 77; }, Status::UnknownCommandBuffer,
            Field::CallBuffer},
           {"id beyond the table", Opcode::Call, [](auto& b) { b.payload.call.buffer = wire::kCommandBuffers; },
            Status::UnknownCommandBuffer, Field::CallBuffer},
           {"largest id", Opcode::Prepared, [](auto& b) { b.payload.call.buffer = ~0u; }, Status::UnknownCommandBuffer,
            Field::CallBuffer},
           {"epoch to come", Opcode::Call, [](auto& b) { b.payload.call.epoch += 10; }, Status::StaleCommandBuffer,
            Field::CallEpoch},
           {"epoch 0", Opcode::Prepared, [](auto& b) { b.payload.call.epoch = 0; }, Status::StaleCommandBuffer,
            Field::CallEpoch},
           {"reserved word", Opcode::Call, [](auto& b) { b.payload.call.reserved0 = 1; }, Status::ReservedBits,
            Field::Reserved},
           {"reserved words", Opcode::Prepared, [](auto& b) { b.payload.call.reserved[4] = 1; }, Status::ReservedBits,
            Field::Reserved},
           {"budget", Opcode::Call, [](auto& b) { b.header.budget = 1; }, Status::BadBudget, Field::Budget},
           {"base of PREPARED", Opcode::Prepared, [](auto& b) { b.payload.call.signal_base = 1; }, Status::ReservedBits,
            Field::CallSignalBase},
           {"base that overflows", Opcode::Call, [](auto& b) { b.payload.call.signal_base = kMax - 4; },
            Status::Overflow, Field::CallSignalBase},
           {"PREPARED of several blocks", Opcode::Prepared, [](auto&) {}, Status::BadOpcode, Field::CallBuffer},
       }) {
    SCOPED_TRACE(bad.what);
    ControlBlock block = call(stream_, buffer, bad.opcode);
    bad.spoil(block);
    const auto end = run_block(block);
    expect_end(end, Outcome::Rejected, bad.status, bad.field);
    EXPECT_EQ(end.start_time, 0u);
    reset_stream();
  }
  expect_ok(run_block(call(stream_, buffer)));
  expect_ok(run_block(call(stream_, one)));
  expect_ok(run_block(prepared(one)));
  EXPECT_EQ(run_block(call(stream_, buffer)).status, Status::EventRegressed) << "it signals the same value again";
}

TEST_F(CommandBuffers, EachFieldOfAPatchIsCheckedAndARefusedOneChangesNothing) {
  const Buffer buffer = make({nop(), with_tensor(Program::TellsCorrection, 128)}, tensor_of(7));
  struct Bad {
    const char* what;
    std::function<void(wire::PatchPayload&)> spoil;
    std::function<void(ControlBlock&)> spoil_block;
    Status status;
    Field field;
  };
  const auto nothing = [](auto&) {};
  const auto window = driver_.window().size();
  for (const Bad& bad : std::vector<Bad>{
           {"id", [](auto& p) { p.buffer = 77; }, nothing, Status::UnknownCommandBuffer, Field::CallBuffer},
           {"epoch", [](auto& p) { --p.epoch; }, nothing, Status::StaleCommandBuffer, Field::CallEpoch},
           {"block", [](auto& p) { p.block = 2; }, nothing, Status::OutOfBounds, Field::PatchBlock},
           {"largest block", [](auto& p) { p.block = ~0u; }, nothing, Status::OutOfBounds, Field::PatchBlock},
           {"reserved", [](auto& p) { p.reserved[3] = 1; }, nothing, Status::ReservedBits, Field::Reserved},
           {"no bytes", [](auto& p) { p.bytes = 0; }, nothing, Status::BadSize, Field::PatchBytes},
           {"too many bytes", [](auto& p) { p.bytes = 512 + 4096 + 128; }, nothing, Status::BadSize, Field::PatchBytes},
           {"part of a stick", [](auto& p) { p.bytes -= 8; }, nothing, Status::BadSize, Field::PatchBytes},
           {"more than the tensor", [](auto& p) { p.bytes += 128; }, nothing, Status::BadSize, Field::PatchBytes},
           {"less than the tensor", [](auto& p) { p.bytes -= 128; }, nothing, Status::BadSize, Field::PatchBytes},
           {"between sticks", [](auto& p) { p.offset += 8; }, nothing, Status::BadAlignment, Field::PatchSource},
           {"window header", [](auto& p) { p.offset = 0; }, nothing, Status::NotHostMemory, Field::PatchSource},
           {"over the window's end", [=](auto& p) { p.offset = window - 512; }, nothing, Status::NotHostMemory,
            Field::PatchSource},
           {"another kind of block", [](auto& p) { p.block = 0; }, nothing, Status::BadOpcode, Field::OpcodeField},
           {"a block that is not in order", nothing, [](auto& b) { b.header.magic = 0; }, Status::BadMagic,
            Field::Magic},
           {"a tensor elsewhere", nothing, [](auto& b) { b.payload.compute.correction.offset = 128; },
            Status::OutOfBounds, Field::ComputeCorrection},
           {"an old region", nothing,
            [](auto& b) { b.payload.compute.segments[0] = {0, 0, 128, 99, wire::kSegmentRead, {}}; },
            Status::StaleRegion, Field::ComputeSegment},
       }) {
    SCOPED_TRACE(bad.what);
    ControlBlock with = with_tensor(Program::TellsCorrection, 128);
    bad.spoil_block(with);
    ControlBlock block = patch(stream_, buffer, 1, with, tensor_of(9));
    bad.spoil(block.payload.patch);
    const auto end = run_block(block);
    expect_end(end, Outcome::Rejected, bad.status, bad.field);
    EXPECT_EQ(end.start_time, 0u);
    reset_stream();
    EXPECT_EQ(run_block(call(stream_, buffer)).fault.argument, 7u) << "the patch was refused";
    reset_stream();
  }
}

// ---- patches --------------------------------------------------------------------------------------------------------

TEST_F(CommandBuffers, APatchIsInOrderWithTheLaunchesOfItsStream) {
  card_.card().first_slices.allow(true);
  const Buffer buffer = make({with_tensor(Program::TellsCorrection, 128)}, tensor_of(0));
  expect_ok(run_block(prepared(buffer)));
  driver_.submit(prepared(buffer));
  driver_.submit(patch(stream_, buffer, 0, with_tensor(Program::TellsCorrection, 128), tensor_of(9)));
  driver_.submit(prepared(buffer));
  expect_ok(wait());
  expect_ok(wait());
  const auto end = wait();
  EXPECT_EQ(end.status, Status::KernelStatus);
  EXPECT_EQ(end.fault.argument, 9u);
}

TEST_F(CommandBuffers, APatchChangesWhatABlockWorksOn) {
  const Buffer buffer = make({fill(0, 128, 1), fill(128, 128, 1)});
  expect_ok(run_block(patch(stream_, buffer, 1, fill(4096, 256, 5))));
  expect_ok(run_block(call(stream_, buffer)));
  EXPECT_EQ(word_at(0), 1u);
  EXPECT_EQ(word_at(4096 + 128), 5u);
  EXPECT_EQ(word_at(128), 0u);
}

TEST_F(CommandBuffers, ABufferThatACallOfAnotherStreamUsesIsNotPatched) {
  const Buffer buffer = make({launch(Program::UntilReleased), fill(0, 128, 1)});
  StreamHandle other = driver_.open_stream().value();
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  expect_end(run_block(patch(other, buffer, 1, fill(0, 128, 2))), Outcome::Rejected, Status::Busy, Field::CallBuffer);
  kernels_.released = true;
  expect_ok(wait());
  EXPECT_EQ(word_at(0), 1u);
}

// ---- what becomes of them -------------------------------------------------------------------------------------------

TEST_F(CommandBuffers, ABufferOfAnotherFunctionIsUnknown) {
  const Buffer theirs = make({nop()});
  RawDriver& other = card_.driver(3);
  ASSERT_TRUE(other.bring_up());
  StreamHandle stream;
  for (const auto opcode : {Opcode::Call, Opcode::Prepared, Opcode::Patch}) {
    ControlBlock block = other.nop(stream);
    block.header.opcode = opcode;
    if (opcode == Opcode::Patch) {
      block.payload.patch = {theirs.id, 0, theirs.epoch, kSource, 512, {}};
    } else {
      block.payload.call = {theirs.id, 0, theirs.epoch, 0, {}};
    }
    const auto end = other.run(block);
    expect_end(end, Outcome::Rejected, Status::UnknownCommandBuffer, Field::CallBuffer);
    ASSERT_EQ(other.reset_stream(stream).outcome, Outcome::Ok);
  }
  auto request = other.admin_request(AdminCommand::BufferDestroy);
  request.arguments.buffer_destroy = {theirs.id, 0, theirs.epoch};
  EXPECT_EQ(other.admin(request).status, Status::UnknownCommandBuffer);
  // Its own one of the same id is another one.
  const auto reply = create(other, {nop()});
  EXPECT_EQ(reply.values.buffer.buffer, theirs.id);
  expect_ok(run_block(call(stream_, theirs)));
}

TEST_F(CommandBuffers, TheManagementFunctionHasNone) {
  RawDriver& manager = card_.driver(0);
  ASSERT_TRUE(manager.bring_up());
  for (const auto command : {AdminCommand::BufferCreate, AdminCommand::BufferDestroy}) {
    EXPECT_EQ(manager.admin(manager.admin_request(command)).status, Status::NotPermitted);
  }
}

TEST_F(CommandBuffers, ADestroyedBufferIsUnknownAndItsIdComesBackWithAnotherEpoch) {
  const Buffer first = make({nop()});
  EXPECT_EQ(destroy({first.id, first.epoch + 1}).status, Status::StaleCommandBuffer);
  EXPECT_EQ(destroy(first).outcome, Outcome::Ok);
  EXPECT_EQ(destroy(first).status, Status::UnknownCommandBuffer);
  expect_end(run_block(call(stream_, first)), Outcome::Rejected, Status::UnknownCommandBuffer, Field::CallBuffer);
  reset_stream();
  const Buffer second = make({nop()});
  EXPECT_EQ(second.id, first.id);
  expect_end(run_block(call(stream_, first)), Outcome::Rejected, Status::StaleCommandBuffer, Field::CallEpoch);
  reset_stream();
  expect_ok(run_block(call(stream_, second)));
}

TEST_F(CommandBuffers, ABufferThatIsDestroyedWhileItRunsRunsToItsEndAndIsFreedThen) {
  const Buffer buffer = make({launch(Program::UntilReleased), fill(0, 128, 6)});
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
  EXPECT_EQ(buffers(), 1u);
  EXPECT_NE(make({nop()}).id, buffer.id) << "its memory is still in use";
  StreamHandle other = driver_.open_stream().value();
  expect_end(run_block(call(other, buffer)), Outcome::Rejected, Status::UnknownCommandBuffer, Field::CallBuffer);
  kernels_.released = true;
  expect_ok(wait());
  EXPECT_EQ(word_at(0), 6u);
  EXPECT_EQ(buffers(), 1u);
}

TEST_F(CommandBuffers, ACallAfterARegionWasReleasedIsRefusedBeforeItBegins) {
  const RegionHandle second = driver_.acquire(2 * wire::kMiB).value();
  ControlBlock compute = launch(Program::Exit);
  compute.payload.compute.segments[2] = {second.id, 0, 128, second.generation, wire::kSegmentRead, {}};
  const Buffer one = make({compute});
  const Buffer several = make({fill(0, 128, 7), entry(driver_.fill(scratch_, second, 0, 128, 8)), nop()});
  expect_ok(run_block(prepared(one)));
  expect_ok(run_block(call(stream_, several)));
  expect_ok(run_block(driver_.fill(stream_, tensor_, 0, 128, 1)));
  ASSERT_EQ(driver_.release(second).outcome, Outcome::Ok);
  for (int again = 0; again < 2; ++again) {
    const auto end = run_block(prepared(one));
    expect_end(end, Outcome::Rejected, Status::UnknownRegion, Field::ComputeSegment);
    EXPECT_EQ(end.fault.argument, 2u);
    reset_stream();
    expect_end(run_block(call(stream_, several)), Outcome::Rejected, Status::UnknownRegion, Field::FillDestination, 1);
    reset_stream();
  }
  EXPECT_EQ(word_at(0), 1u) << "the first block ran";
  // Another region in its place is another one, and a patch makes the buffer good again.
  const RegionHandle third = driver_.acquire(2 * wire::kMiB).value();
  EXPECT_EQ(third.id, second.id);
  expect_end(run_block(prepared(one)), Outcome::Rejected, Status::StaleRegion, Field::ComputeSegment);
  reset_stream();
  compute.payload.compute.segments[2].generation = third.generation;
  expect_ok(run_block(patch(stream_, one, 0, compute)));
  expect_ok(run_block(prepared(one)));
}

TEST_F(CommandBuffers, OtherRegionsThatComeAndGoDoNotHarmABuffer) {
  card_.card().first_slices.allow(true);
  std::vector<ControlBlock> blocks(50, fill(0, 128, 3));
  blocks.push_back(launch(Program::Touches));
  const Buffer buffer = make(blocks);
  for (int i = 0; i < 5; ++i) {
    const RegionHandle other = driver_.acquire(2 * wire::kMiB).value();
    expect_ok(run_block(call(stream_, buffer)));
    ASSERT_EQ(driver_.release(other).outcome, Outcome::Ok);
    expect_ok(run_block(call(stream_, buffer)));
  }
}

TEST_F(CommandBuffers, ARegionThatGoesInTheMiddleOfACallIsAFaultOfTheBlockThatNamesIt) {
  const RegionHandle second = driver_.acquire(2 * wire::kMiB).value();
  const Buffer buffer =
      make({launch(Program::UntilReleased), nop(), entry(driver_.fill(scratch_, second, 0, 128, 8)), nop()});
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  ASSERT_EQ(driver_.release(second).outcome, Outcome::Ok);
  kernels_.released = true;
  expect_end(wait(), Outcome::Fault, Status::UnknownRegion, Field::FillDestination, 2);
}

TEST_F(CommandBuffers, AnImageThatWasOverwrittenIsJudgedAgain) {
  for (const bool at_once : {false, true}) {
    card_.card().first_slices.allow(at_once);
    const std::uint64_t offset = static_cast<std::uint64_t>(Program::Exit) * fwtest::kImageStride;
    const Buffer buffer = make({launch(Program::Exit)});
    expect_ok(run_block(prepared(buffer)));
    expect_ok(run_block(driver_.fill(stream_, programs_, offset, 128, 0)));
    expect_end(run_block(prepared(buffer)), Outcome::Rejected, Status::ImageMagic, Field::ImageHeaderField);
    reset_stream();
    // And another one there is what is launched.
    const auto image = fwtest::image_of(Program::ExitWithFive);
    std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
    expect_ok(run_block(driver_.dma(stream_, RawDriver::host(wire::kHostMemoryOffset),
                                    RawDriver::device(programs_, offset), image.size())));
    EXPECT_EQ(run_block(prepared(buffer)).fault.argument, 5u);
    reset_stream();
    const auto back = fwtest::image_of(Program::Exit);
    std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), back.data(), back.size());
    expect_ok(run_block(driver_.dma(stream_, RawDriver::host(wire::kHostMemoryOffset),
                                    RawDriver::device(programs_, offset), back.size())));
    expect_ok(run_block(prepared(buffer)));
  }
}

TEST_F(CommandBuffers, WhatTheHostWritesAfterwardsChangesNothing) {
  const Buffer buffer = make({with_tensor(Program::TellsCorrection, 128)}, tensor_of(7));
  std::memset(driver_.at<std::byte>(kSource), 0xff, 4096);
  EXPECT_EQ(run_block(prepared(buffer)).fault.argument, 7u);
}

TEST_F(CommandBuffers, AResetOfTheStreamStopsACallAndKeepsItsBuffer) {
  const Buffer buffer = make({fill(0, 128, 1), launch(Program::UntilReleased), fill(0, 128, 2)});
  driver_.submit(call(stream_, buffer));
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  const auto slot = driver_.send_admin(driver_.stream_request(AdminCommand::StreamReset, stream_));
  expect_end(wait(), Outcome::Fault, Status::Stopped, Field::None, 1);
  EXPECT_EQ(wait().outcome, Outcome::Aborted);
  ASSERT_EQ(driver_.wait_admin(slot)->outcome, Outcome::Ok);
  stream_.incarnation += 1;
  stream_.next_sequence = 1;
  EXPECT_EQ(word_at(0), 1u);
  kernels_.released = true;
  expect_ok(run_block(call(stream_, buffer)));
  EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
  EXPECT_EQ(buffers(), 0u) << "somebody still counts as its user";
}

// Judging takes several steps of its stream: a reset between two of them, and a cancel, meet a call that has not begun.
TEST_F(CommandBuffers, AStopOfACallThatIsBeingJudgedAgainFindsItNotBegun) {
  for (const bool cancels : {false, true}) {
    SCOPED_TRACE(cancels ? "cancel" : "reset");
    const Buffer buffer = make(std::vector<ControlBlock>(wire::kMaxBufferBlocks, fill(0, wire::kStickBytes, 1)));
    std::vector<StreamHandle> streams(30);
    for (StreamHandle& stream : streams) stream = driver_.open_stream().value();
    ASSERT_TRUE(driver_.acquire(2 * wire::kMiB).has_value());  // names may mean something else from now on
    for (StreamHandle& stream : streams) driver_.submit(call(stream, buffer));
    const StreamHandle& stopped = streams[3];
    auto request = driver_.stream_request(AdminCommand::StreamReset, stopped);
    if (cancels) {
      request = driver_.admin_request(AdminCommand::Cancel);
      request.arguments.cancel = {stopped.id, stopped.incarnation, 1};
    }
    driver_.send_admin(request);
    fw::run_iteration(card_.card());
    std::optional<Completion> end;
    for (int i = 0; i < 1000; ++i) {
      card_.run_until_idle();
      for (const auto& one : driver_.collect()) {
        if (one.completion.stream == stopped.id) end = one.completion;
      }
    }
    ASSERT_TRUE(end.has_value());
    expect_end(*end, Outcome::Aborted, Status::Stopped);
    EXPECT_EQ(end->start_time, 0u);
    ASSERT_EQ(driver_.set_status(0), 0u);
    ASSERT_TRUE(driver_.bring_up(wire::kMandatoryFeatures | wire::kFeatureIndirectDesc));
    tensor_ = driver_.acquire(4 * wire::kMiB).value();
  }
}

TEST_F(CommandBuffers, AResetThatMeetsAWaitOfACallIsAFaultOfIt) {
  StreamHandle other = driver_.open_stream().value();
  const Buffer buffer = make({nop(), entry(driver_.event_wait(scratch_, other, 4)), nop()});
  driver_.submit(call(stream_, buffer));
  card_.run_until_idle();
  reset_stream();
  expect_end(wait(), Outcome::Fault, Status::Stopped, Field::None, 1);
  EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
  EXPECT_EQ(buffers(), 0u);
}

TEST_F(CommandBuffers, ACallIsCancelledWhereverItStands) {
  StreamHandle other = driver_.open_stream().value();
  const auto cancel = [&](std::uint64_t sequence) {
    auto request = driver_.admin_request(AdminCommand::Cancel);
    request.arguments.cancel = {stream_.id, stream_.incarnation, sequence};
    return driver_.admin(request).outcome;
  };
  const Buffer kernel = make({nop(), launch(Program::UntilReleased), nop()});
  const Buffer waits = make({nop(), entry(driver_.event_wait(scratch_, other, 4)), nop()});
  const Buffer waits_first = make({entry(driver_.event_wait(scratch_, other, 4)), nop()});
  for (const Buffer* const buffer : {&kernel, &waits}) {
    driver_.submit(call(stream_, *buffer));
    card_.run_until_idle();
    const auto slot = [&] {
      auto request = driver_.admin_request(AdminCommand::Cancel);
      request.arguments.cancel = {stream_.id, stream_.incarnation, stream_.next_sequence - 1};
      return driver_.send_admin(request);
    }();
    expect_end(wait(), Outcome::Fault, Status::Stopped, Field::None, 1);
    EXPECT_EQ(driver_.wait_admin(slot)->outcome, Outcome::Ok);
    reset_stream();
  }
  // None of its blocks has started: the stream goes on without it.
  driver_.submit(call(stream_, waits_first));
  card_.run_until_idle();
  EXPECT_EQ(cancel(stream_.next_sequence - 1), Outcome::Ok);
  EXPECT_EQ(wait().outcome, Outcome::Aborted);
  driver_.submit(driver_.event_wait(stream_, other, 4));
  driver_.submit(call(stream_, kernel));
  card_.run_until_idle();
  EXPECT_EQ(cancel(stream_.next_sequence - 1), Outcome::Ok);
  EXPECT_EQ(wait().outcome, Outcome::Aborted);
  EXPECT_EQ(cancel(stream_.next_sequence - 2), Outcome::Ok);
  EXPECT_EQ(wait().outcome, Outcome::Aborted);
  expect_ok(run_block(driver_.nop(stream_)));
  for (const Buffer& buffer : {kernel, waits, waits_first}) EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
  EXPECT_EQ(buffers(), 0u);
}

TEST_F(CommandBuffers, AResetOfTheFunctionEndsItsBuffersAndFreesTheirMemory) {
  const Buffer idle = make({nop()});
  const Buffer busy = make({nop(), launch(Program::UntilReleased)});
  driver_.submit(call(stream_, busy));
  card_.run_until_idle();
  EXPECT_EQ(destroy(busy).outcome, Outcome::Ok);
  driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  card_.run_until_idle();
  while (slice()) card_.run_until_idle();
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
  EXPECT_EQ(hal::table_pages(), 0u);
  EXPECT_EQ(buffers(), 0u);
  ASSERT_TRUE(driver_.receive());
  driver_.forget();
  ASSERT_TRUE(driver_.bring_up());
  stream_ = {};
  expect_end(run_block(call(stream_, idle)), Outcome::Rejected, Status::UnknownCommandBuffer, Field::CallBuffer);
  reset_stream();
  const Buffer next = make({entry(driver_.nop(scratch_))});
  EXPECT_EQ(next.id, idle.id);
  EXPECT_GT(next.epoch, busy.epoch) << "an epoch came back";
  expect_end(run_block(call(stream_, idle)), Outcome::Rejected, Status::StaleCommandBuffer, Field::CallEpoch);
}

TEST_F(CommandBuffers, AResetOfTheQueuesKeepsThem) {
  const Buffer buffer = make({fill(0, 128, 4)});
  ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue));
  driver_.forget_blocks();
  ASSERT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
  stream_.incarnation += 1;
  stream_.next_sequence = 1;
  expect_ok(run_block(call(stream_, buffer)));
}

TEST_F(CommandBuffers, AFullTableRefusesAndADestroyMakesRoom) {
  std::vector<Buffer> all(wire::kCommandBuffers);
  for (Buffer& buffer : all) buffer = make({nop()});
  const auto refused = create(driver_, {nop()});
  EXPECT_EQ(refused.outcome, Outcome::Rejected);
  EXPECT_EQ(refused.status, Status::OutOfCommandBuffers);
  EXPECT_EQ(refused.field, Field::AdminBuffer);
  EXPECT_EQ(destroy(all[500]).outcome, Outcome::Ok);
  EXPECT_EQ(make({nop()}).id, all[500].id);
  // Another function has a table of its own.
  RawDriver& other = card_.driver(3);
  ASSERT_TRUE(other.bring_up());
  EXPECT_EQ(create(other, {nop()}).outcome, Outcome::Ok);
}

class LittleFirmwareMemory : public CommandBuffers {
 protected:
  LittleFirmwareMemory() : CommandBuffers(48 * wire::kMiB) {}
};

TEST_F(LittleFirmwareMemory, BuffersAreChargedToTheirFunctionsShare) {
  const auto& spaces = card_.card().spaces;
  const std::uint64_t before = spaces.held_pages_bytes(2);
  const std::vector<ControlBlock> blocks(wire::kMaxBufferBlocks, nop());
  const std::vector<std::uint64_t> data(wire::kMaxBufferDataBytes / 8);
  std::vector<Buffer> all;
  while (all.size() < wire::kCommandBuffers) {
    const auto reply = create(driver_, blocks, data);
    if (reply.outcome != Outcome::Ok) {
      EXPECT_EQ(reply.status, Status::OutOfCommandBuffers);
      EXPECT_EQ(reply.field, Field::AdminBytes);
      break;
    }
    all.push_back({reply.values.buffer.buffer, reply.values.buffer.epoch});
  }
  EXPECT_GT(all.size(), 4u);
  EXPECT_LT(all.size(), wire::kCommandBuffers);
  EXPECT_LE(spaces.held_pages_bytes(2), spaces.share_bytes());
  EXPECT_GE(spaces.held_pages_bytes(2),
            before + all.size() * fw::CommandBuffer::bytes_of(wire::kMaxBufferBlocks, wire::kMaxBufferDataBytes));
  // A launch finds no room, and says so; another function's does.
  expect_end(run(Program::Exit), Outcome::Rejected, Status::OutOfExecutionAreas, Field::ComputeImage);
  reset_stream();
  RawDriver& other = card_.driver(3);
  ASSERT_TRUE(other.bring_up());
  StreamHandle stream;
  const RegionHandle programs = fwtest::load_programs(other, stream);
  other.submit(fwtest::launch_of(other, stream, programs, Program::Exit));
  card_.run_until_idle();
  while (slice()) card_.run_until_idle();
  const auto ended = other.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
  for (const Buffer& buffer : all) EXPECT_EQ(destroy(buffer).outcome, Outcome::Ok);
  expect_ok(run(Program::Exit));
}

// With the checksums of control blocks negotiated it is the CALL that carries one, and no block of the buffer.
TEST_F(CommandBuffers, ACallCarriesAChecksumAndTheBlocksOfItsBufferNone) {
  driver_.set_status(0);
  driver_.forget();
  ASSERT_TRUE(driver_.bring_up(wire::kMandatoryFeatures | wire::kFeatureControlBlockCrc));
  stream_ = {};
  ControlBlock of_buffer = driver_.nop(scratch_);
  const Buffer buffer = make({entry(of_buffer), entry(of_buffer)});
  expect_ok(run_block(call(stream_, buffer)));
  ControlBlock spoilt = call(stream_, buffer);
  spoilt.header.crc32c ^= 1;
  expect_end(run_block(spoilt), Outcome::Rejected, Status::BadCrc, Field::Crc);
}

}  // namespace
