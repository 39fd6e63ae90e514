// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/late_program.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace flex::detail {

using svp::compiler::LengthUse;

LateProgram::LateProgram(std::span<const std::byte> archive, const svp::BinaryProgram& program,
                         const std::string& source)
    : bundle_(svp::compiler::read_bundle(svp::spyrecode::read_archive(archive, source))),
      uses_(svp::compiler::length_uses(bundle_)),
      program_(program) {
  const std::size_t takes = program.program->arguments().size();
  if (uses_.size() == takes) return;
  throw svp::InvalidPlan(source,
                         source + ": the program takes " + std::to_string(takes) +
                             " arguments, and the bundle that comes with it " + std::to_string(uses_.size()),
                         "write the binary again (docs/spyrecode.md)");
}

// Of arguments whose length changes nothing 0, which is not known to the compiler.
LateProgram::Lengths LateProgram::that_matter(std::span<const std::uint64_t> lengths) const {
  Lengths result(uses_.size());
  for (std::size_t i = 0; i < uses_.size() && i < lengths.size(); ++i) {
    const bool is_short = lengths[i] < program_.program->arguments()[i].bytes;
    if (uses_[i] == LengthUse::Each || (uses_[i] == LengthUse::Short && is_short)) result[i] = lengths[i];
  }
  return result;
}

// Compiled while the lock is held: of threads that launch with the same new lengths one compiles. The compiler calls
// nobody.
LoadedJob LateProgram::compiled_for(const Lengths& lengths) {
  std::list<Variant> gone;  // without the lock: the last owner of a program gives its memory back
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(variants_, lengths, &Variant::lengths);
  if (found != variants_.end()) {
    variants_.splice(variants_.begin(), variants_, found);
  } else {
    variants_.push_front({lengths, {.job = compile(lengths), .sent = nullptr}});
    if (variants_.size() > kMostVariants) gone.splice(gone.begin(), variants_, std::prev(variants_.end()));
  }
  return variants_.front().job;
}

// With the lock. What the compiler refuses once it refuses each time.
std::shared_ptr<const svp::Job> LateProgram::compile(const Lengths& lengths) {
  if (const auto known = std::ranges::find(refusals_, lengths, &Refusal::lengths); known != refusals_.end()) {
    refusals_.splice(refusals_.begin(), refusals_, known);
    throw svp::InvalidPlan(known->why);
  }
  ++compilations_;
  try {
    auto program = std::make_shared<const svp::DeviceProgram>(svp::compiler::compile(bundle_, {.lengths = lengths}));
    return std::make_shared<const svp::Job>(std::move(program), nullptr, program_.options);
  } catch (const svp::InvalidPlan& why) {
    refusals_.push_front({lengths, why});
    if (refusals_.size() > kMostRefusals) refusals_.pop_back();
    throw;
  }
}

std::uint64_t LateProgram::compilations() const {
  const std::lock_guard lock(mutex_);
  return compilations_;
}

// Of two threads that load the same program the second one's memory is given back when its launch has ended.
void LateProgram::keep(const Lengths& lengths, const LoadedJob& before, LoadedJob loaded) {
  LoadedJob other;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(variants_, lengths, &Variant::lengths);
    if (found != variants_.end() && found->job.job == before.job) other = std::exchange(found->job, std::move(loaded));
  }
}

std::shared_ptr<const svp::Job> LateProgram::loaded_program(svp::Runtime& runtime, svp::FlexStream& stream,
                                                            const std::shared_ptr<const svp::Kernel>& engine,
                                                            std::span<const std::uint64_t> lengths) {
  const Lengths mattering = that_matter(lengths);
  if (std::ranges::all_of(mattering, [](std::uint64_t bytes) { return bytes == 0; })) return nullptr;
  const LoadedJob before = compiled_for(mattering);
  if (before.ready()) {
    stream.Wait(before.sent);
    return before.job;
  }
  const LoadedJob loaded = load_job(runtime, stream, engine, *before.job);
  keep(mattering, before, loaded);
  return loaded.job;
}

}  // namespace flex::detail
