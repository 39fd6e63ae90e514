// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/program_memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/binary.hpp"
#include "host_driver/spyrecode/program_binary.hpp"

namespace flex::detail {
namespace {

std::uint64_t first_word(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  if (bytes.size() >= sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

bool is_correction(std::span<const std::byte> bytes) {
  return bytes.size() <= wire::kMaxCorrectionBytes && first_word(bytes) == wire::kCorrectionMagic;
}

// The standard job of the binary: the addresses come from the tensors of the launch.
svp::Job job_of(const svp::BinaryKernel& binary) {
  const svp::CompiledKernel& compiled = binary.compiled;
  std::vector<svp::Step> steps;
  if (!compiled.kernel()->metadata().symbols.empty()) {
    steps.emplace_back(svp::HostOperation{});
    steps.emplace_back(svp::CorrectionDMA{});
  }
  steps.emplace_back(
      svp::DeviceCompute{.expected_input_shapes = {compiled.operand_shapes().begin(), compiled.operand_shapes().end()},
                         .core_mask = binary.core_mask,
                         .budget_slices = binary.budget_slices});
  return {compiled.kernel(), svp::ProgramCorrectionMetadata::of(*compiled.kernel()), svp::JobPlan(std::move(steps))};
}

}  // namespace

void ProgramMemory::note_sent(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (content_.empty()) content_.resize(bytes_);
  forget_binaries(offset, bytes.size());
  std::ranges::copy(bytes, content_.begin() + static_cast<std::ptrdiff_t>(offset));
  if (is_correction(bytes)) corrections_[stream].assign(bytes.begin(), bytes.end());
}

void ProgramMemory::forget_binaries(std::uint64_t offset, std::uint64_t bytes) {
  std::erase_if(binaries_, [&](const auto& entry) {
    const auto& [at, binary] = entry;
    return at < offset + bytes && offset < at + binary.bytes;
  });
}

std::shared_ptr<const svp::Job> ProgramMemory::job_at(const std::shared_ptr<svp::FlexAllocator>& allocator,
                                                      svp::AllocationIndex place, std::uint64_t offset,
                                                      const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto known = binaries_.find(offset); known != binaries_.end()) return known->second.job;
  const std::string source = name.empty() ? "the program" : name;
  if (offset >= content_.size()) {
    refuse("bootstrap_offset", "nothing was sent to byte " + std::to_string(offset) + " of " + source,
           "send the binary first (InitTransfer)");
  }
  const auto bytes = std::span<const std::byte>(content_).subspan(offset);
  if (svp::spyrecode::is_program_binary(bytes)) return program_at(bytes, offset, source);
  const svp::spyrecode::Binary binary = svp::spyrecode::read_binary(bytes, source);
  svp::Job job = job_of(svp::read_kernel(bytes, source));
  const auto image = static_cast<std::uint64_t>(binary.image.data() - bytes.data());
  job.set_program(std::make_shared<const svp::LoadedProgram>(allocator, job.binary(), place, offset + image));
  svp::spyrecode::BinaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  auto shared = std::make_shared<const svp::Job>(std::move(job));
  binaries_.emplace(offset, Binary{header.bytes, shared});
  return shared;
}

std::shared_ptr<const svp::Job> ProgramMemory::program_at(std::span<const std::byte> bytes, std::uint64_t offset,
                                                          const std::string& source) {
  const auto binary = std::get<svp::BinaryProgram>(svp::read_plan_binary(bytes, source));
  svp::spyrecode::ProgramBinaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  auto job = std::make_shared<const svp::Job>(binary.program, nullptr, binary.options);
  binaries_.emplace(offset, Binary{.bytes = header.bytes, .job = job});
  return job;
}

std::shared_ptr<const svp::Job> ProgramMemory::loaded_program(svp::Runtime& runtime, svp::FlexStream& stream,
                                                              const std::shared_ptr<const svp::Kernel>& engine,
                                                              std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto found = binaries_.find(offset);
  if (found == binaries_.end()) {
    refuse("program address", "the program was overwritten meanwhile", "launch before it is sent again");
  }
  Binary& binary = found->second;
  const bool here = binary.job->loaded() && binary.sent != nullptr && binary.sent->stage() != svp::EventStage::Failed;
  if (here) {
    stream.Wait(binary.sent);
    return binary.job;
  }
  svp::ExecutionPlan plan({*binary.job});
  plan.load(runtime, stream, engine);
  binary.sent = stream.Record();
  binary.job = std::make_shared<const svp::Job>(plan.jobs()[0]);
  return binary.job;
}

std::vector<std::byte> ProgramMemory::correction_of(unsigned stream) const {
  const std::lock_guard lock(mutex_);
  const auto sent = corrections_.find(stream);
  return sent == corrections_.end() ? std::vector<std::byte>{} : sent->second;
}

}  // namespace flex::detail
