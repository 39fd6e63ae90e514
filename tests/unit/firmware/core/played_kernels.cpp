// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/firmware/core/played_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "shared/crc32c.hpp"
#include "shared/kernel_abi.hpp"
#include "tests/support/bytes.hpp"

namespace fwtest {

namespace {
constexpr unsigned kPrograms = static_cast<unsigned>(Program::Marks) + 1;
constexpr std::uint64_t kTextBytes = 4096;

hal::Stop stop(hal::StopReason reason, std::uint64_t argument = 0, std::uint64_t ran = 1) {
  hal::Stop stop{};
  stop.reason = reason;
  stop.argument = argument;
  stop.ran_ticks = ran;
  return stop;
}
hal::Stop fault(wire::Status status, hal::Access access, std::uint64_t address, std::uint64_t pc) {
  hal::Stop stop{};
  stop.reason = hal::StopReason::Fault;
  stop.status = status;
  stop.access = access;
  stop.address = address;
  stop.pc = pc;
  stop.ran_ticks = 1;
  return stop;
}

// Everything that a kernel may write besides its regions.
std::array<std::span<std::byte>, 3> own_memory(const native::Board& board, const hal::Context& context) {
  const std::uint64_t root = context.integer[0];
  wire::KernelArguments arguments;
  std::memcpy(&arguments, board.translate(root, context.integer[3]), sizeof arguments);
  const auto at = [&](std::uint64_t address, std::uint64_t bytes) {
    return std::span(board.translate(root, address), bytes);
  };
  return {at(context.integer[2] - wire::kKernelStackBytes, wire::kKernelStackBytes),
          at(arguments.pool_address, arguments.pool_bytes),
          at(arguments.scratchpad_address, arguments.scratchpad_bytes)};
}
}  // namespace

hal::Stop PlayedKernels::touch(hal::Context& context) const {
  const std::uint64_t address = wire::region_window(0) + wire::kGranuleBytes + 5;
  std::byte* place = board->translate(context.integer[0], address);
  if (place == nullptr) {
    return fault(wire::Status::StoreFault, hal::Access::Store, address, context.integer[1] + 4);
  }
  // All cores of a launch store it.
  std::atomic_ref(*place).store(std::byte{0x5a}, std::memory_order_relaxed);
  return stop(hal::StopReason::Exit);
}

hal::Stop PlayedKernels::accumulate(hal::Context& context) const {
  std::uint64_t& sums = context.integer[10];
  if (released || sums == kMostSums) return touch(context);
  const std::uint64_t address = wire::region_window(0) + kSumAt;
  std::byte* place = board->translate(context.integer[0], address);
  if (place == nullptr) return fault(wire::Status::StoreFault, hal::Access::Store, address, context.integer[1]);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place)).fetch_add(1, std::memory_order_relaxed);
  ++sums;
  return stop(hal::StopReason::Timer);
}

hal::Stop PlayedKernels::claim(hal::Context& context) {
  std::uint64_t& epoch = context.integer[10];
  std::uint64_t& asked = context.integer[11];  // the claim before has been answered
  const std::uint64_t item = context.integer[4];
  if (asked != 0 && item >= kItems) {
    asked = 0;
    return stop(++epoch < kEpochs ? hal::StopReason::Barrier : hal::StopReason::Exit);
  }
  if (asked != 0) claimed[epoch][item].fetch_add(1, std::memory_order_relaxed);
  asked = 1;
  return stop(hal::StopReason::Claim, 1);
}

// As the array would: with Ask a request has been asked for, and the kernel calls.
hal::Stop PlayedKernels::ask_array(hal::Context& context) {
  using wire::array::Order;
  std::uint64_t& requests = context.integer[10];
  std::uint64_t& sum = context.integer[11];
  wire::array::Orders& orders = context.array_orders;
  context.played[0] = wire::to_progress(kMarkedProgress);
  if (held) return stop(hal::StopReason::Timer);
  while (requests < kRequests) {
    Played result = Played::Served;
    switch (orders.order) {
      case Order::Ask:
      case Order::Asked: orders.order = Order::Asked; return stop(hal::StopReason::ArrayOrder);
      case Order::RefuseOne: result = Played::Refused; break;
      case Order::CorruptOne: result = Played::Corrupted; break;
      case Order::FailOne:
        result = Played::Failed;
        orders.failed = failing_memory;
        break;
      default: break;
    }
    if (orders.order != Order::Serve) orders.order = Order::Ask;
    sum = sum * 10 + static_cast<unsigned>(result);
    ++requests;
    if (result == Played::Failed) {
      on_failure();
      return stop(hal::StopReason::ArrayOrder);
    }
  }
  results = sum;
  return stop(hal::StopReason::Exit, sum);
}

hal::Stop PlayedKernels::play(hal::Context& context, std::uint64_t slice_ticks) {
  slices.fetch_add(1);
  in_slice();
  const std::uint64_t root = context.integer[0], entry = context.integer[1], argument = context.integer[3];
  std::uint64_t& step = context.integer[10];  // ours, zero at the start
  std::uint64_t& progress = context.played[0];
  switch (static_cast<Program>((entry - wire::kContextWindow) % wire::kExecutionAreaStride / 2)) {
    case Program::Exit: return stop(hal::StopReason::Exit);
    case Program::ExitWithFive: return stop(hal::StopReason::Exit, 5);
    case Program::Endless: return stop(hal::StopReason::Timer, 0, slice_ticks);
    case Program::Barriers: return stop(step++ < kBarriers ? hal::StopReason::Barrier : hal::StopReason::Exit);
    case Program::TraceBurst: return stop(hal::StopReason::TraceMark, step++, 0);
    case Program::TenMarks:
      return step < 10 ? stop(hal::StopReason::TraceMark, step++, 0) : stop(hal::StopReason::Exit);
    case Program::OneLeaves: {
      wire::KernelArguments arguments;
      std::memcpy(&arguments, board->translate(root, argument), sizeof arguments);
      return stop(arguments.core_index == 0 ? hal::StopReason::Exit : hal::StopReason::Barrier);
    }
    case Program::Touches: return touch(context);
    case Program::AsksArray: return ask_array(context);
    case Program::CallsForOrders: return stop(step++ == 0 ? hal::StopReason::ArrayOrder : hal::StopReason::Exit);
    case Program::Strays: return fault(wire::Status::LoadFault, hal::Access::Load, 8, entry + 12);
    case Program::UntilReleased: return stop(released ? hal::StopReason::Exit : hal::StopReason::Timer, 0, 1);
    case Program::Slices: return stop(step++ < 20 ? hal::StopReason::Timer : hal::StopReason::Exit);
    case Program::BadCall: return stop(hal::StopReason::BadCall, 99);
    case Program::Accumulates: return accumulate(context);
    case Program::TouchesLate: return released ? touch(context) : stop(hal::StopReason::Timer);
    case Program::Scribbles:
      for (const auto memory : own_memory(*board, context)) std::memset(memory.data(), 0xa5, memory.size());
      return stop(hal::StopReason::Exit);
    case Program::FindsBytes:
      for (const auto memory : own_memory(*board, context)) {
        if (!svp::test::all_bytes_are(memory, std::byte{0})) return stop(hal::StopReason::Exit, 1);
      }
      return stop(hal::StopReason::Exit);
    case Program::StaleStack:
      if (step++ != 0) return stop(hal::StopReason::Exit);
      return fault(wire::Status::StoreFault, hal::Access::Store, context.integer[2] - 8, entry + 4);
    case Program::BrokenStack:
      ++step;
      return fault(wire::Status::StoreFault, hal::Access::Store, context.integer[2] - 8, entry + 4);
    case Program::TellsCorrection: {
      wire::KernelArguments arguments;
      std::memcpy(&arguments, board->translate(root, argument), sizeof arguments);
      std::uint64_t word = 0;
      std::memcpy(&word, board->translate(root, arguments.correction_address), sizeof word);
      return stop(hal::StopReason::Exit, word);
    }
    case Program::Claims: return claim(context);
    case Program::Operations:
      if (step == kOperations) return stop(hal::StopReason::Exit);
      progress = wire::to_progress(static_cast<std::uint32_t>(step++));
      return stop(hal::StopReason::Barrier);
    case Program::Marks:
      progress = wire::to_progress(kMarkedProgress);
      return stop(hal::StopReason::TraceMark, 1234, slice_ticks);
    case Program::WritesText: return fault(wire::Status::StoreFault, hal::Access::Store, entry, entry + 4);
  }
  return fault(wire::Status::IllegalInstruction, hal::Access::Fetch, entry, entry);
}

std::vector<std::byte> image_of(Program program) {
  wire::ImageHeader header{};
  header.magic = wire::kImageMagic;
  header.abi_version = wire::kImageAbiVersion;
  header.text_offset = sizeof header;
  header.text_bytes = kTextBytes;
  header.pool_offset = sizeof header + kTextBytes;
  header.pool_bytes = 128;
  header.image_bytes = header.pool_offset + header.pool_bytes;
  header.correction_entry = static_cast<std::uint64_t>(program) * 2;
  header.max_correction_bytes = wire::kMaxCorrectionBytes;
  std::vector<std::byte> image(header.image_bytes);
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, image.data(), image.size());
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

RegionHandle load_programs(RawDriver& driver, StreamHandle& stream) {
  const auto region = driver.acquire(2 * wire::kMiB, wire::RegionType::Program).value();
  for (unsigned i = 0; i < kPrograms; ++i) {
    const auto image = image_of(static_cast<Program>(i));
    std::memcpy(driver.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
    const auto end = driver.run(driver.dma(stream, RawDriver::host(wire::kHostMemoryOffset),
                                           RawDriver::device(region, i * kImageStride), image.size()));
    EXPECT_EQ(end.outcome, wire::Outcome::Ok);
  }
  return region;
}

wire::ControlBlock launch_of(RawDriver& driver, StreamHandle& stream, const RegionHandle& programs, Program program,
                             std::uint64_t core_mask) {
  return driver.compute(stream, programs, static_cast<std::uint64_t>(program) * kImageStride, image_of(program).size(),
                        core_mask);
}

}  // namespace fwtest
