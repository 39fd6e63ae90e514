// SPDX-License-Identifier: Apache-2.0
// Firmware memory goes from one function to the next: a page is text, then stack or scratchpad that the compute array
// writes, then text again. The emulator notices stores to translated code only when they are its own (docs/array.md):
// each kernel must be executed as it was loaded last. The page tables, read through the emulator, tell which page was
// what.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "host_driver/frontend/context.hpp"
#include "host_driver/program/device_program.hpp"
#include "shared/dl16.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/support/expected_array.hpp"
#include "tests/support/program_builder.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::int64_t kRows = 4;
constexpr std::size_t kElements = kRows * wire::kStickBytes / sizeof(wire::Dl16);
constexpr std::size_t kBytes = kElements * sizeof(wire::Dl16);
constexpr unsigned kFunctions = 3;

using Numbers = std::vector<wire::Dl16>;

// ---- the address space that hart 0 entered last -----------------------------------------------------------------

struct Mapping {
  std::uint64_t address, physical, bytes;
  bool writable, executable;
};

// "info mem" of the emulator: lines of address, physical address, bytes and rights.
std::vector<Mapping> mappings_of(qemu::Machine& machine) {
  const auto text = machine.monitor("info mem");
  if (!text) throw std::runtime_error(qemu::to_string(text.error()));
  std::vector<Mapping> mappings;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Mapping mapping{};
    std::string rights;
    if (!(words >> std::hex >> mapping.address >> mapping.physical >> mapping.bytes >> rights)) continue;
    mapping.writable = rights.contains('w');
    mapping.executable = rights.contains('x');
    mappings.push_back(mapping);
  }
  return mappings;
}

// ---- the functions ----------------------------------------------------------------------------------------------

enum class Kernel : std::uint8_t { None, Add, Copy, Subtract };  // the last one is the engine's

struct PageUse {
  Kernel text = Kernel::None;  // the last one whose text it was
  bool written = false;        // by a request to the compute array, since then
};
using PageUses = std::map<std::uint64_t, PageUse>;

std::shared_ptr<const DeviceProgram> subtraction() {
  test::ProgramBuilder builder;
  builder.add(test::dense_operation(builder, wire::program::Opcode::Sub, kElements, 2));
  return std::make_shared<const DeviceProgram>("subtract", builder.build());
}

// A function that is reset again and again.
class Tenant {
 public:
  Tenant(std::shared_ptr<Card> card, unsigned function, PageUses& uses)
      : context_(Context::open(std::move(card), {.function = function})), uses_(uses) {
    for (std::size_t i = 0; i < kElements; ++i) {
      a_[i] = wire::dl16_from_fp32(static_cast<float>(i % 50 + 10 * function));
      b_[i] = wire::dl16_from_fp32(static_cast<float>(i % 7 + 1));
      sum_[i] = wire::dl16_from_fp32(wire::fp32_from_dl16(a_[i]) + wire::fp32_from_dl16(b_[i]));
      difference_[i] = wire::dl16_from_fp32(wire::fp32_from_dl16(a_[i]) - wire::fp32_from_dl16(b_[i]));
    }
    allocate();
  }

  // Its pages go back to the firmware.
  void reset() {
    EXPECT_EQ(context_->recover(ResetLevel::Function).level(), ResetLevel::Function);
    text_.clear();
    images_ = 0;
    stray_.reset();
    allocate();
  }
  bool has_room() const { return images_ + 2 < wire::kExecutionAreas; }

  // By an image of its own. Returns how many of its pages were another kernel's text before, and the array's between.
  unsigned compute(Kernel kernel) {
    ExecutionPlan plan({kernel == Kernel::Subtract ? Job(subtraction()) : compiled(kernel)});
    context_->load(plan);
    ++images_;
    put(memory_[2], Numbers(kElements));
    stream().Launch(plan.jobs()[0], arguments(kernel), {.core_mask = 1});
    Numbers result(kElements);
    stream().Launch(Job::from_device(result.data(), memory_[2], kBytes), {});
    stream().Synchronize(test::soon());
    EXPECT_TRUE(result == (kernel == Kernel::Add    ? sum_
                           : kernel == Kernel::Copy ? a_
                                                    : difference_))
        << "kernel " << static_cast<unsigned>(kernel) << " computed something else";
    return note_text(kernel);
  }

  // One stick of each page of its own stack, and of some of its scratchpad.
  void write_by_array() {
    const std::uint64_t context = wire::kContextWindow;
    std::vector<std::uint64_t> pages;
    for (std::uint64_t at = 0; at + kPage < wire::kKernelStackBytes; at += kPage) {  // but the one that is in use
      pages.push_back(context + wire::kStackOffset + at);
    }
    for (std::uint64_t at = 64 * wire::kKiB; at < 128 * wire::kKiB; at += 4 * kPage) {
      pages.push_back(context + wire::kScratchpadOffset + at);
    }
    for (const std::uint64_t page : pages) store(page);
    for (const Mapping& mapping : mappings_of(context_->card().machine())) {
      for (const std::uint64_t page : pages) {
        if (page < mapping.address || page >= mapping.address + mapping.bytes) continue;
        EXPECT_TRUE(mapping.writable && !mapping.executable);
        uses_[mapping.physical + (page - mapping.address)].written = true;
      }
    }
  }

 private:
  FlexStream& stream() { return context_->runtime().default_stream(); }
  void allocate() {
    for (auto& memory : memory_) memory = context_->runtime().allocator().allocate(kBytes);
    put(memory_[0], a_);
    put(memory_[1], b_);
  }
  void put(AllocationIndex memory, const Numbers& numbers) {
    stream().Launch(Job::to_device(numbers.data(), memory, kBytes), {});
    stream().Synchronize(test::soon());
  }
  Job compiled(Kernel kernel) {
    return Job(CompiledKernel(context_->kernel(kernel == Kernel::Add ? "add" : "copy"), {{"M", kRows}, {"N", 64}}));
  }
  std::vector<Argument> arguments(Kernel kernel) const {
    std::vector<Argument> all;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (kernel == Kernel::Copy && i == 1) continue;
      all.push_back(kernel == Kernel::Subtract ? Argument::raw(memory_[i])
                                               : Argument{.allocation = memory_[i], .shape = {kRows, 64}});
    }
    return all;
  }
  unsigned note_text(Kernel kernel) {
    unsigned reused = 0;
    for (const Mapping& mapping : mappings_of(context_->card().machine())) {
      if (!mapping.executable) continue;
      for (std::uint64_t at = 0; at < mapping.bytes; at += kPage) {
        if (std::exchange(text_[mapping.physical + at], true)) continue;  // an earlier image's
        PageUse& use = uses_[mapping.physical + at];
        reused += use.written && use.text != Kernel::None && use.text != kernel;
        use = {.text = kernel, .written = false};
      }
    }
    return reused;
  }

  // The kernel "stray" copies a stick there, by the array where the card has one.
  void store(std::uint64_t address) {
    if (!stray_) stray_.emplace(load_stray());
    const auto at = context_->runtime().allocator().resolve(memory_[0]);
    *offset_ = address - (wire::region_window(at.region_ordinal) + at.address.offset);
    const Argument argument{.allocation = memory_[0], .shape = {1, 64}};
    stream().Launch(*stray_, {&argument, 1}, {.core_mask = 1});
    bool by_array = false;
    try {
      stream().Synchronize(test::soon());
    } catch (const StreamError& error) {  // an exit status other than 0: the array has reached the address
      EXPECT_EQ(error.info().status, wire::Status::KernelStatus) << error.what();
      by_array = true;
      stream().Reset();
    }
    EXPECT_EQ(by_array, test::cards_have_array());
  }
  Job load_stray() {
    constexpr std::uint64_t kArrayStore = 12;  // what the kernel is to do
    const auto kernel = context_->kernel("stray");
    const HostFunction write = [offset = offset_](const HostOperationInput& input, std::span<std::byte> correction) {
      const std::size_t bytes = build_correction(input, correction);
      const std::uint64_t values[] = {*offset, kArrayStore};
      for (std::size_t i = 0; i < std::size(values); ++i) {
        std::memcpy(correction.data() + sizeof(wire::CorrectionHeader) + (1 + i) * sizeof(wire::CorrectionSymbol) +
                        offsetof(wire::CorrectionSymbol, value),
                    &values[i], sizeof values[i]);
      }
      return bytes;
    };
    const DeviceCompute compute{.expected_input_shapes = {{1, 64}}};
    ExecutionPlan plan({Job(kernel, ProgramCorrectionMetadata::of(*kernel),
                            JobPlan({HostOperation{write}, CorrectionDMA{}, compute}))});
    context_->load(plan);
    ++images_;
    return plan.jobs()[0];
  }

  std::unique_ptr<Context> context_;
  PageUses& uses_;
  std::map<std::uint64_t, bool> text_;  // physical pages of its images
  unsigned images_ = 0;
  std::shared_ptr<std::uint64_t> offset_ = std::make_shared<std::uint64_t>();
  std::optional<Job> stray_;
  std::array<AllocationIndex, 3> memory_{};
  Numbers a_ = Numbers(kElements), b_ = a_, sum_ = a_, difference_ = a_;
};

std::uint64_t chosen_seed() {
  const char* const text = std::getenv("SPYRE_SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : std::random_device{}();
}

TEST(ReusedPages, AKernelIsExecutedAsItWasLoadedLast) {
  constexpr unsigned kMostSteps = 400, kEnough = 6;  // the pages come after 10 to 60 steps
  const std::uint64_t seed = chosen_seed();
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  CardOptions options = test::small_card();
  options.virtual_functions = kFunctions;
  const std::shared_ptr<Card> card = test::boot(std::move(options));
  PageUses uses;
  std::vector<std::unique_ptr<Tenant>> tenants;
  for (unsigned i = 1; i <= kFunctions; ++i) tenants.push_back(std::make_unique<Tenant>(card, i, uses));
  unsigned reused = 0, step = 0;
  for (; step < kMostSteps && reused < kEnough; ++step) {
    Tenant& tenant = *tenants[step % kFunctions];
    tenant.reset();
    for (std::uint64_t images = random() % 6 + 1; images > 0; --images) {
      reused += tenant.compute(static_cast<Kernel>(1 + random() % 3));
    }
    if (random() % 2 == 0) tenant.write_by_array();
    while (random() % 2 == 0 && tenant.has_room()) reused += tenant.compute(static_cast<Kernel>(1 + random() % 3));
  }
  std::printf("  %u pages of text had been another kernel's, and written by the array between, in %u steps\n", reused,
              step);
  EXPECT_GT(reused, 0u) << "no page was used again";
}

}  // namespace
}  // namespace svp
