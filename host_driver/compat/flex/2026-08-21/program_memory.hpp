// SPDX-License-Identifier: Apache-2.0
// What a program has sent into an allocation of program memory: binaries, which launches run from where they lie, and
// correction tensors, which name the tensors of the launches behind them. The driver keeps a copy of the bytes, because
// a launch needs a binary's metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/late_program.hpp"
#include "host_driver/compat/flex/2026-08-21/loaded_job.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/plan_directory.hpp"

namespace flex::detail {

// A binary in bytes for program memory, read and checked.
struct SentBinary {
  std::uint64_t offset = 0;  // in these bytes
  std::uint64_t bytes = 0;
  std::shared_ptr<const svp::PlanBinary> content{};
  std::shared_ptr<LateProgram> late{};  // null: the program does not depend on lengths
};
// Those that stand at the front, one behind the other; none when no binary begins there. Throws InvalidPlan: one of
// them is damaged or cut off, or its program is none; `source` names the bytes.
std::vector<SentBinary> binaries_in(std::span<const std::byte> bytes, const std::string& source);

bool is_correction(std::span<const std::byte> bytes);

class ProgramMemory {
 public:
  explicit ProgramMemory(std::uint64_t bytes) : bytes_(bytes) {}

  // The bytes are sent to `offset` on the stream. They fit. `binaries`: binaries_in() these bytes.
  void note_sent(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes,
                 std::vector<SentBinary> binaries);

  // The same of a correction tensor that stays on the host: launches take it from here. The card gets it when somebody
  // reads this memory back: take_unsent() then gives the bytes that it lacks.
  void note_correction(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes);
  struct Unsent {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Unsent> take_unsent();

  // The job of the binary at `offset`; `name` is for messages. A kernel runs from where it lies. A device program has
  // to be loaded (loaded_program()): the engine takes it from memory of tensors. Throws InvalidArgument: none was sent
  // there, or what was sent is none.
  std::shared_ptr<const svp::Job> job_at(const std::shared_ptr<svp::FlexAllocator>& allocator,
                                         svp::AllocationIndex place, std::uint64_t offset, const std::string& name);

  // The device program that job_at() has found at `offset`, on the card for what is launched on `stream` from now on,
  // for arguments of these lengths. `engine` may be null. Throws as svp::ExecutionPlan::load() and LateProgram.
  std::shared_ptr<const svp::Job> loaded_program(svp::Runtime& runtime, svp::FlexStream& stream,
                                                 const std::shared_ptr<const svp::Kernel>& engine, std::uint64_t offset,
                                                 std::span<const std::uint64_t> lengths);

  // The correction tensor that was sent on the stream last; empty: none was.
  std::vector<std::byte> correction_of(unsigned stream) const;

 private:
  struct Binary {
    SentBinary sent;
    LoadedJob loaded{};  // `job` is null: not launched yet; `sent` is of device programs
  };
  std::optional<Binary> binary_at(std::uint64_t offset) const;
  svp::Job job_of(const SentBinary& binary, const std::shared_ptr<svp::FlexAllocator>& allocator,
                  svp::AllocationIndex place, std::uint64_t offset, const std::string& source) const;
  // With mutex_ held.
  void keep(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes);
  void forget_binaries(std::uint64_t offset, std::uint64_t bytes);

  const std::uint64_t bytes_;
  mutable std::mutex mutex_;
  std::vector<std::byte> content_;                          // empty until something is sent
  std::map<std::uint64_t, Binary> binaries_;                // by offset
  std::map<unsigned, std::vector<std::byte>> corrections_;  // by stream
  std::map<std::uint64_t, std::uint64_t> unsent_;           // bytes that only content_ has, by offset
};

}  // namespace flex::detail
