// SPDX-License-Identifier: Apache-2.0
// Contents for the arguments of a bundle, and the comparison of what it left there with the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host_driver/compiler/bundle.hpp"
#include "host_driver/program/device_program.hpp"
#include "tests/support/bundle_reference.hpp"

namespace test {

// Each argument with a few sticks behind what the program takes. Numbers are quarters, so that sums are exact, or one
// in 24 is infinite or NaN; of index tensors rows of the table, each once before one comes again. A program that was
// compiled without lengths has one row.
enum class Numbers : std::uint8_t { Finite, All };
std::vector<std::vector<std::byte>> arguments_of(const svp::compiler::Bundle& bundle, const svp::DeviceProgram& program,
                                                 std::uint64_t seed, Numbers numbers = Numbers::Finite);

// Empty: equal in every byte that the reference specifies; else "argument 2, byte 128 of 4096, written: 3c, not 40".
std::string first_difference(const std::vector<ReferenceMemory>& expected,
                             const std::vector<std::vector<std::byte>>& got);

}  // namespace test
