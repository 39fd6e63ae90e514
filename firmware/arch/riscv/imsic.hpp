// SPDX-License-Identifier: Apache-2.0
// The incoming message-signalled interrupt controller: one interrupt file per hart, M level. An identity that arrives
// only says "look": what happened stands in memory (protocol §8).
#pragma once

#include <cstdint>

namespace riscv {

// Identities 1 … 255 exist. Slots take the lower ones; with more slots than identities some share one, which costs
// nothing because a doorbell never says who rang.
inline constexpr std::uint32_t kSlotIdentities = 240;
inline constexpr std::uint32_t kWakeIdentity = 250;

constexpr std::uint32_t slot_identity(unsigned slot) { return 1 + slot % kSlotIdentities; }

// Where a device or a hart writes an identity to interrupt `hart`.
std::uint64_t imsic_file(unsigned hart);

// Brings the calling hart's file from any state (it survives a warm reset) to: nothing pending, all identities enabled.
void imsic_initialize();

// Whether the calling hart is interrupted by what its file holds. While it is not, an identity that arrives is one bit
// in the file: the emulator does not even look at the hart.
void imsic_deliver(bool on);

// Claims everything that is pending. Bounded: identities that keep arriving stay pending.
void imsic_claim_all();

// One store to the other hart's file, ordered behind all earlier stores.
void imsic_send(unsigned hart, std::uint32_t identity);

}  // namespace riscv
