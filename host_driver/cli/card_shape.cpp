// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/card_shape.hpp"

#include <CLI/Option.hpp>
#include <CLI/TypeTools.hpp>
#include <CLI/Validators.hpp>
#include <cctype>
#include <string>
#include <utility>

#include "host_driver/discovery/device_list.hpp"
#include "qemu/memory_budget.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/units.hpp"

namespace cli {

namespace {

// Spares cost 1–4 ms of start and 1.4 MB each; the emulator has PCI addresses for this many and some functions.
constexpr unsigned kMaxSpareSlots = 200;
constexpr unsigned kMaxCores = 64;

// Converts a size into bytes, and judges them.
CLI::Validator size_in(std::uint64_t unit, const char* unit_text, std::uint64_t least) {
  return {[unit, unit_text, least](std::string& text) -> std::string {
            // The library takes a unit alone for one of it.
            if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) {
              return "'" + text + "' is not a size like 98G or 512M";
            }
            if (text.contains('.')) return "'" + text + "' is not a whole number of a unit; 1536M is 1.5G";
            if (std::string error = CLI::AsSizeValue(false)(text); !error.empty()) return error;
            std::uint64_t bytes = 0;
            if (!CLI::detail::lexical_cast(text, bytes)) return text + " bytes are too many";
            if (bytes % unit != 0) return text + " bytes is not " + unit_text;
            return bytes >= least ? std::string()
                                  : text + " bytes are too few: at least " + std::to_string(least) + " are needed";
          },
          "SIZE", "size"};
}

void add_size(CLI::App& command, const char* name, std::uint64_t& bytes, const char* text, std::uint64_t unit,
              const char* unit_text, std::uint64_t least = 0) {
  command.add_option(name, bytes, text)->transform(size_in(unit, unit_text, least));
}

}  // namespace

void add_card_options(CLI::App& command, CardShape& shape) {
  command.add_option("--vfs", shape.virtual_functions, "virtual functions")
      ->check(CLI::Range(0u, wire::boot::kMaxVirtualFunctions))
      ->capture_default_str();
  command.add_option("--cores", shape.cores, "harts of the card (0: by this machine)")
      ->check(CLI::Range(0u, kMaxCores));
  add_size(command, "--memory", shape.memory_bytes,
           "of the card, like 98G; at least 2050M, only touched memory costs any here", wire::kMiB, "whole MiB",
           svp::kLeastMemoryBytes);
  command.add_option("--spares,--slots", shape.spare_slots, "windows kept plugged for owners to come")
      ->check(CLI::Range(0u, kMaxSpareSlots))
      ->capture_default_str();
  add_size(command, "--quota", shape.quota_bytes, "of region memory for each VF (default: none)", wire::kGranuleBytes,
           "whole granules of 2 MiB");
  add_size(command, "--budget", shape.budget_bytes,
           "of this machine's memory that the card may touch (default: its share of a third of what is available)",
           wire::kMiB, "whole MiB");
  command.add_option("--array", shape.array,
                     "compute array: off, auto or the plugin's path (default: SPYRE_ARRAY, else auto)");
}

std::string what_is_wrong_with(const CardShape& shape) {
  if (shape.virtual_functions > wire::boot::kMaxVirtualFunctions) return "too many virtual functions";
  if (shape.cores > kMaxCores) return "too many cores";
  if (shape.spare_slots > kMaxSpareSlots) return "too many spare slots";
  if (shape.memory_bytes < svp::kLeastMemoryBytes) return "the memory is too small for a card";
  if (shape.memory_bytes % wire::kMiB != 0) return "the memory is not whole MiB";
  if (shape.quota_bytes % wire::kGranuleBytes != 0) return "the quota is not whole granules of 2 MiB";
  if (shape.budget_bytes % wire::kMiB != 0) return "the budget is not whole MiB";
  return {};
}

svp::CardOptions card_options(const CardShape& shape, unsigned sharing) {
  svp::CardOptions options;
  options.virtual_functions = shape.virtual_functions;
  options.cores = shape.cores;
  options.memory_bytes = shape.memory_bytes;
  options.spare_slots = shape.spare_slots;
  options.populated_budget_bytes =
      shape.budget_bytes != 0 ? shape.budget_bytes : svp::default_populated_budget(sharing);
  options.array = shape.array;
  if (shape.quota_bytes != 0) {
    options.boot_arguments = std::string(wire::boot::kQuotaMiB) + "=" + std::to_string(shape.quota_bytes / wire::kMiB);
  }
  return options;
}

unsigned count_running_cards() {
  auto cards = svp::running_cards();
  if (!cards) throw svp::Error(std::move(cards.error()));
  return static_cast<unsigned>(cards->size());
}

}  // namespace cli
