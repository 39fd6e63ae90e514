// SPDX-License-Identifier: Apache-2.0
// A device program that depends on the lengths of its arguments: its binary brings the bundle that it was made from
// (docs/spyrecode.md, version 3), which is compiled again for the lengths that a launch has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/loaded_job.hpp"
#include "host_driver/compiler/argument_lengths.hpp"
#include "host_driver/compiler/bundle.hpp"
#include "host_driver/runtime/plan_directory.hpp"

namespace flex::detail {

// Threads may share one.
class LateProgram {
 public:
  // Programs of this plan that stay on the card; the one that was launched longest ago goes first. A launch that uses
  // one that goes keeps it until it ends.
  static constexpr std::size_t kMostVariants = 8;
  // Lengths that the compiler has refused, which it is not asked again; the one that was launched longest ago goes
  // first.
  static constexpr std::size_t kMostRefusals = 8;

  // `archive`: that of the binary, of which `program` is the other part. Throws InvalidPlan (`source`): it holds no
  // bundle, or one of another number of arguments.
  LateProgram(std::span<const std::byte> archive, const svp::BinaryProgram& program, const std::string& source);

  // The program for a launch whose arguments have these bytes, on the card for what is launched on `stream` from now
  // on. Null: it is the one of the binary. Throws as svp::compiler::compile() and svp::ExecutionPlan::load().
  std::shared_ptr<const svp::Job> loaded_program(svp::Runtime& runtime, svp::FlexStream& stream,
                                                 const std::shared_ptr<const svp::Kernel>& engine,
                                                 std::span<const std::uint64_t> lengths);

  // The first half of it: the program, which is not on the card when `sent` is null. Throws as
  // svp::compiler::compile().
  LoadedJob compiled_program(std::span<const std::uint64_t> lengths) { return compiled_for(that_matter(lengths)); }
  // How often the compiler was asked.
  std::uint64_t compilations() const;

 private:
  using Lengths = std::vector<std::uint64_t>;
  struct Variant {
    Lengths lengths;
    LoadedJob job;  // `sent` is null: it was compiled and not loaded yet
  };
  struct Refusal {
    Lengths lengths;
    svp::InvalidPlan why;
  };
  Lengths that_matter(std::span<const std::uint64_t> lengths) const;
  LoadedJob compiled_for(const Lengths& lengths);
  std::shared_ptr<const svp::Job> compile(const Lengths& lengths);
  void keep(const Lengths& lengths, const LoadedJob& before, LoadedJob loaded);

  svp::compiler::Bundle bundle_;
  std::vector<svp::compiler::LengthUse> uses_;
  svp::BinaryProgram program_;
  mutable std::mutex mutex_;
  std::list<Variant> variants_;  // the one that was launched last stands first
  std::list<Refusal> refusals_;  // likewise
  std::uint64_t compilations_ = 0;
};

}  // namespace flex::detail
