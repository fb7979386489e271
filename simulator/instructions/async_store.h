#pragma once

namespace jfa::simulator {

class InstructionTable;

/// st.async and red.async to shared memory: single threads' stores that report their bytes to an mbarrier.
void register_async_store(InstructionTable& table);

}  // namespace jfa::simulator
