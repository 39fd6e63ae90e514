// SPDX-License-Identifier: Apache-2.0
// A fatal record (shared/fatal_record.hpp), checked and explained. It shows addresses and registers of the firmware:
// for the owner of the card, never for a tenant.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/debug/elf_image.hpp"
#include "shared/fatal_record.hpp"

namespace svp {

// The record at the beginning of `bytes`. Errors: none there (outcome Rejected, "no record"), another version, damaged.
Expected<wire::FatalRecord> parse_record(std::span<const std::byte> bytes);

// Whether `image` is the build that the record is of; true when either of the two does not say.
bool same_build(const wire::FatalRecord& record, const ElfImage& image);

// For people: what broke, where every hart was, the last events. Without `image` places are numbers.
std::string to_text(const wire::FatalRecord& record, const ElfImage* image);

// {kind, reason, boot_epoch, time_us, source, build_id, waiting_for: [hart…], harts: [{hart, state, waypoint, pc,
//  function, …registers}], events: [{time_us, kind, a, b}]}; numbers as such, addresses as "0x…".
nlohmann::json to_json(const wire::FatalRecord& record, const ElfImage* image);

}  // namespace svp
