// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/program_memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "host_driver/base/mutants.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/runtime/event.hpp"
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

// The standard job of the binary: the addresses come from the tensors of the launch.
svp::Job job_of_kernel(const svp::BinaryKernel& binary) {
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

// Of the binary at the front.
SentBinary read_sent(std::span<const std::byte> bytes, std::uint64_t offset, const std::string& source) {
  auto content = std::make_shared<const svp::PlanBinary>(svp::read_plan_binary(bytes, source));
  svp::spyrecode::BinaryHeader header;  // of a device program the first 24 bytes are the same
  std::memcpy(&header, bytes.data(), sizeof header);
  SentBinary binary{.offset = offset, .bytes = header.bytes, .content = std::move(content)};
  if (const auto* program = std::get_if<svp::BinaryProgram>(binary.content.get())) {
    const auto archive = svp::spyrecode::read_program_binary(bytes, source).archive;
    if (!archive.empty()) binary.late = std::make_shared<LateProgram>(archive, *program, source);
  }
  return binary;
}

}  // namespace

bool is_correction(std::span<const std::byte> bytes) {
  return bytes.size() <= wire::kMaxCorrectionBytes && first_word(bytes) == wire::kCorrectionMagic;
}

std::vector<SentBinary> binaries_in(std::span<const std::byte> bytes, const std::string& source) {
  std::vector<SentBinary> binaries;
  try {
    for (std::uint64_t at = 0; first_word(bytes.subspan(at)) == svp::spyrecode::kBinaryMagic;) {
      const std::string name = at == 0 ? source : source + " from byte " + std::to_string(at);
      binaries.push_back(read_sent(bytes.subspan(at), at, name));
      at += binaries.back().bytes;  // at most what there is: read_sent() has checked it
    }
  } catch (const svp::InvalidPlan&) {
    if (!svp::mutated(svp::HostMutant::FlexBinary)) throw;
  }
  return binaries;
}

void ProgramMemory::note_sent(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes,
                              std::vector<SentBinary> binaries) {
  const std::lock_guard lock(mutex_);
  keep(stream, offset, bytes);
  for (SentBinary& binary : binaries) {
    const std::uint64_t at = offset + binary.offset;
    binaries_.emplace(at, Binary{.sent = std::move(binary)});  // keep() has forgotten what stood there
  }
}

void ProgramMemory::note_correction(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  keep(stream, offset, bytes);
  std::uint64_t& unsent = unsent_[offset];
  unsent = std::max<std::uint64_t>(unsent, bytes.size());
}

std::vector<ProgramMemory::Unsent> ProgramMemory::take_unsent() {
  const std::lock_guard lock(mutex_);
  std::vector<Unsent> all;
  for (const auto& [offset, bytes] : std::exchange(unsent_, {})) {
    const auto from = content_.begin() + static_cast<std::ptrdiff_t>(offset);
    all.push_back({offset, {from, from + static_cast<std::ptrdiff_t>(bytes)}});
  }
  return all;
}

void ProgramMemory::keep(unsigned stream, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (content_.empty()) content_.resize(bytes_);
  forget_binaries(offset, bytes.size());
  std::ranges::copy(bytes, content_.begin() + static_cast<std::ptrdiff_t>(offset));
  if (is_correction(bytes)) corrections_[stream].assign(bytes.begin(), bytes.end());
}

void ProgramMemory::forget_binaries(std::uint64_t offset, std::uint64_t bytes) {
  std::erase_if(binaries_, [&](const auto& entry) {
    const auto& [at, binary] = entry;
    const bool overlaps = at < offset + bytes && offset < at + binary.sent.bytes;
    return overlaps && !svp::mutated(svp::HostMutant::FlexOverwritten);
  });
}

std::shared_ptr<const svp::Job> ProgramMemory::job_at(const std::shared_ptr<svp::FlexAllocator>& allocator,
                                                      svp::AllocationIndex place, std::uint64_t offset,
                                                      const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::string source = name.empty() ? "the program" : name;
  if (offset >= content_.size()) {
    refuse("bootstrap_offset", "nothing was sent to byte " + std::to_string(offset) + " of " + source,
           "send the binary first (InitTransfer)");
  }
  auto known = binaries_.find(offset);
  if (known == binaries_.end()) {  // it did not stand at the front of what was sent
    SentBinary binary = read_sent(std::span<const std::byte>(content_).subspan(offset), 0, source);
    known = binaries_.emplace(offset, Binary{.sent = std::move(binary)}).first;
  }
  Binary& binary = known->second;
  if (binary.loaded.job == nullptr) {
    binary.loaded.job = std::make_shared<const svp::Job>(job_of(binary.sent, allocator, place, offset, source));
  }
  return binary.loaded.job;
}

svp::Job ProgramMemory::job_of(const SentBinary& binary, const std::shared_ptr<svp::FlexAllocator>& allocator,
                               svp::AllocationIndex place, std::uint64_t offset, const std::string& source) const {
  if (const auto* program = std::get_if<svp::BinaryProgram>(binary.content.get())) {
    return svp::Job(program->program, nullptr, program->options);
  }
  svp::Job job = job_of_kernel(std::get<svp::BinaryKernel>(*binary.content));
  const auto bytes = std::span<const std::byte>(content_).subspan(offset);
  const auto image = svp::spyrecode::read_binary(bytes, source).image.data() - bytes.data();
  job.set_program(std::make_shared<const svp::LoadedProgram>(allocator, job.binary(), place,
                                                             offset + static_cast<std::uint64_t>(image)));
  return job;
}

std::optional<ProgramMemory::Binary> ProgramMemory::binary_at(std::uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  const auto found = binaries_.find(offset);
  const bool known = found != binaries_.end() && found->second.loaded.job != nullptr;
  return known ? std::optional(found->second) : std::nullopt;
}

// Loading allocates, which may call the program's memory-pressure callback: it happens without the lock. Of two threads
// that load the same program the second one's memory is given back.
std::shared_ptr<const svp::Job> ProgramMemory::loaded_program(svp::Runtime& runtime, svp::FlexStream& stream,
                                                              const std::shared_ptr<const svp::Kernel>& engine,
                                                              std::uint64_t offset,
                                                              std::span<const std::uint64_t> lengths) {
  const auto before = binary_at(offset);
  if (!before) {
    refuse("program address", "the program was overwritten meanwhile", "launch before it is sent again");
  }
  if (before->sent.late != nullptr) {
    if (auto of_lengths = before->sent.late->loaded_program(runtime, stream, engine, lengths)) return of_lengths;
  }
  if (before->loaded.ready()) {
    stream.Wait(before->loaded.sent);
    return before->loaded.job;
  }
  const LoadedJob mine = load_job(runtime, stream, engine, *before->loaded.job);
  LoadedJob other;
  {
    const std::lock_guard lock(mutex_);
    const auto found = binaries_.find(offset);
    const bool same = found != binaries_.end() && found->second.loaded.job == before->loaded.job;
    if (same) other = std::exchange(found->second.loaded, mine);
  }
  return mine.job;  // also when another thread was first, or has sent another program there: this one is on the card
}

std::vector<std::byte> ProgramMemory::correction_of(unsigned stream) const {
  const std::lock_guard lock(mutex_);
  const auto sent = corrections_.find(stream);
  return sent == corrections_.end() ? std::vector<std::byte>{} : sent->second;
}

}  // namespace flex::detail
