// SPDX-License-Identifier: Apache-2.0
// Tables of functions that are made when the driver is built (write_function_tables.cpp) and are constant data of
// whatever is linked with them: making one takes tens of milliseconds, reading one of these takes none.
#pragma once

#include <span>

#include "host_driver/program/function_tables.hpp"

namespace svp::program {

// What function_table() gives, for as long as the process runs: of all functions, and of one. Empty: there is none for
// these constants. All functions have one for the constants by default. Any thread.
std::span<const wire::Dl16> stored_tables();  // what Base::Tables holds: kAllTablesBytes
std::span<const wire::Dl16> stored_table(wire::program::Opcode function, FunctionConstants constants = {});

}  // namespace svp::program
