// SPDX-License-Identifier: Apache-2.0
// Getting at what a broken or hanging firmware left: for whoever owns the card's emulator (an embedded card, the
// broker). Nothing here needs the firmware's help.
#pragma once

#include "host_driver/debug/core_file.hpp"
#include "qemu/card.hpp"

namespace svp {

// The record that an earlier boot of the card's firmware left. It stays readable until the next one or a power cycle:
// in the card's memory while the emulator runs, in M's window behind it when it has ended. Errors: no record, a damaged
// one, an emulator that does not answer and no copy in the window.
Expected<wire::FatalRecord> collect_record(Card& card);

// What the harts do now, with all that the firmware has in memory: stops them for the moment, and lets them go on when
// they ran. For a card that hangs without having noticed. The record of an earlier boot is added when there is one.
Expected<CoreFile> collect_snapshot(Card& card, const ElfImage& image);

// Writes a core file: of the record when there is one, else, or with Now, of what the harts do now. Returns what it
// was.
enum class CoreOf { RecordOrNow, Now };
enum class CoreWas { Record, Now };
Expected<CoreWas> collect_core(Card& card, CoreOf what, const std::filesystem::path& file);

}  // namespace svp
