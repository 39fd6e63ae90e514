// SPDX-License-Identifier: Apache-2.0
// The devices that this process sees: the rules of enumeration.hpp on its environment and on the cards that run now.
#pragma once

#include "host_driver/base/error.hpp"
#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/enumeration.hpp"

namespace svp {

// Enumerated at the first call, then kept for the lifetime of the process: an index means one device throughout,
// whatever starts or stops. An error is not kept. Thread-safe. Errors: a malformed variable; a runtime folder that is
// not safe to use. No card, or no runtime folder yet: an empty list.
//
// A card whose emulator died keeps its place in the list as long as its broker runs, so that indices do not slide under
// other ranks; attaching to it says what happened. One that is being stopped is not listed.
Expected<Enumeration> devices();
// The same afresh; what devices() keeps stays.
Expected<Enumeration> enumerate_afresh();
// The next call of devices() enumerates afresh. For tests.
void forget_devices();

// The running cards of the default runtime folder, by name.
Expected<std::vector<CardDescription>> running_cards();

// Takes a device of the list, which must not be a MOCK one (those are embedded: svp::Card).
Expected<AttachedFunction> attach(const EnumeratedDevice& device, OpenOptions options = {},
                                  const Timeouts& timeouts = {});

}  // namespace svp
