// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/counts/counting_card.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "host_driver/debug/elf_image.hpp"
#include "qemu/card.hpp"
#include "tests/bench/card/measurement_error.hpp"

namespace counts {

namespace {

constexpr std::uint64_t kWarmUps = 50;  // everything is translated, and linked, after the first few batches

// The emulator opens it by this process's name of the descriptor.
std::string path_of(const svp::UniqueFd& file) { return fmt::format("/proc/{}/fd/{}", ::getpid(), file.get()); }

Table* map_table(const svp::UniqueFd& file) {
  bench::require(file.valid() && ::ftruncate(file.get(), sizeof(Table)) == 0, "no memory for the table of counts");
  void* const at = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  bench::require(at != MAP_FAILED, "the table of counts can not be mapped");
  return static_cast<Table*>(at);
}

std::unique_ptr<svp::Context> boot(const svp::UniqueFd& file, const CountingOptions& counting) {
  svp::ContextOptions options;
  options.runtime.elide_corrections = counting.elides_corrections;
  svp::CardOptions& card = options.card.emplace();
  card.cores = 1;
  card.virtual_functions = counting.virtual_functions;
  card.ports = counting.ports;
  card.emulator.extra_arguments = {"-plugin", fmt::format("{},table={}", SPYRE_COUNTING_PLUGIN, path_of(file))};
  return svp::Context::open(std::move(options));
}

std::filesystem::path kernel_folder(svp::Context& context) {
  const char* const other = std::getenv("SPYRE_KERNELS");
  if (other != nullptr) return other;
  return std::filesystem::path(context.card().options().firmware).parent_path() / "kernels";
}

Cost per_block(const Totals& totals, std::size_t blocks) {
  const auto share = [&](std::uint64_t total) { return static_cast<double>(total) / static_cast<double>(blocks); };
  return {share(totals.blocks), share(totals.instructions), share(totals.lookups), share(totals.misses)};
}

void add(Totals& to, const Totals& more) {
  to.blocks += more.blocks;
  to.instructions += more.instructions;
  to.lookups += more.lookups;
  to.misses += more.misses;
}

}  // namespace

CountingCard::CountingCard(const CountingOptions& options)
    : file_(::memfd_create("spyre-counts", MFD_CLOEXEC)), table_(map_table(file_)), context_(boot(file_, options)) {
  bench::require(table_->rows.load(std::memory_order_acquire) != 0, "the emulator counts nothing");
  client_ = std::make_unique<bench::BlockClient>(context_->device());
}

CountingCard::~CountingCard() {
  client_.reset();
  context_.reset();
  ::munmap(table_, sizeof(Table));
}

CountingCard::Snapshot CountingCard::snapshot() const {
  Snapshot rows(table_->rows.load(std::memory_order_acquire));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = table_->row[i].totals();
  return rows;
}

Counted CountingCard::cost(const Snapshot& before, const Snapshot& after, std::size_t blocks) const {
  bench::require(table_->overflow.load() == 0, "the table of counts is too small");
  const auto image = svp::value_or_throw(svp::ElfImage::open(context_->card().options().firmware));
  const auto engine = svp::value_or_throw(svp::ElfImage::open(kernel_folder(*context_) / "engine.elf"));
  Totals whole;
  std::map<std::string, Totals> functions;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const Totals more = i < before.size() ? after[i] - before[i] : after[i];
    if (more.blocks == 0) continue;
    const std::uint64_t address = table_->row[i].address.load(std::memory_order_relaxed);
    // A kernel's text begins where an execution area does.
    const svp::Symbol* const symbol =
        address >= wire::kContextWindow
            ? engine.function_at((address - wire::kContextWindow) % wire::kExecutionAreaStride)
            : image.function_at(address);
    add(functions[symbol != nullptr ? symbol->name : "(kernel)"], more);
    add(whole, more);
  }
  Counted counted{.whole = per_block(whole, blocks), .functions = {}};
  for (const auto& [name, totals] : functions) counted.functions[name] = per_block(totals, blocks);
  return counted;
}

Counted CountingCard::in_batches(const wire::ControlBlock& block, std::size_t batches) {
  return cheapest([&] { client_->run_many(block, kBatch); }, batches);
}

void CountingCard::launch_batch(const std::function<void()>& launch) {
  for (std::size_t i = 0; i < kBatch; ++i) launch();
  context_->default_stream().flex_stream().Synchronize(std::chrono::steady_clock::now() + bench_bounds::kBlock);
}

Counted CountingCard::launched(const std::function<void()>& launch, std::size_t batches) {
  return cheapest([&] { launch_batch(launch); }, batches);
}

Cost CountingCard::launched_below(const std::function<void()>& launch, const Bounds& bounds) {
  return first_below([&] { launch_batch(launch); }, bounds, kMostLaunchBatches);
}

Counted CountingCard::cheapest(const std::function<void()>& batch, std::size_t batches) {
  for (std::size_t i = 0; i < kWarmUps; ++i) batch();
  Snapshot cheapest_before;
  Snapshot cheapest_after;
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t i = 0; i < batches; ++i) {
    Snapshot before = snapshot();
    batch();
    Snapshot after = snapshot();
    std::uint64_t instructions = 0;
    for (std::size_t row = 0; row < before.size(); ++row) instructions += (after[row] - before[row]).instructions;
    if (instructions >= least) continue;
    least = instructions;
    cheapest_before = std::move(before);
    cheapest_after = std::move(after);
  }
  return cost(cheapest_before, cheapest_after, kBatch);
}

Totals CountingCard::sum() const {
  Totals whole;
  for (const Totals& row : snapshot()) add(whole, row);
  return whole;
}

Cost CountingCard::below(const wire::ControlBlock& block, const Bounds& bounds) {
  return first_below([&] { client_->run_many(block, kBatch); }, bounds, kMostBatches);
}

Cost CountingCard::first_below(const std::function<void()>& batch, const Bounds& bounds, std::size_t batches) {
  Cost cost;
  for (std::size_t i = 0; i < batches; ++i) {
    const Totals before = sum();
    batch();
    cost = per_block(sum() - before, kBatch);
    if (cost.instructions < bounds.instructions && cost.lookups < bounds.lookups) break;
  }
  bench::require(table_->overflow.load() == 0, "the table of counts is too small");
  return cost;
}

std::uint64_t CountingCard::longest_iteration(const std::function<void()>& work) {
  const auto image = svp::value_or_throw(svp::ElfImage::open(context_->card().options().firmware));
  const auto loop = image.address_of("_ZN2fw9loop_stepERNS_4CardERj");
  bench::require(loop.has_value(), "the firmware has no loop_step()");
  table_->longest.store(0, std::memory_order_relaxed);
  table_->iteration.store(*loop, std::memory_order_relaxed);
  work();
  const std::uint64_t longest = table_->longest.load(std::memory_order_relaxed);
  table_->iteration.store(0, std::memory_order_relaxed);
  bench::require(longest != 0, "no iteration of hart 0's loop was seen");
  return longest;
}

Counted CountingCard::one_by_one(const wire::ControlBlock& block, std::size_t blocks) {
  for (std::size_t i = 0; i < kWarmUps * kBatch; ++i) client_->run(block);
  const Snapshot before = snapshot();
  for (std::size_t i = 0; i < blocks; ++i) client_->run(block);
  return cost(before, snapshot(), blocks);
}

}  // namespace counts
