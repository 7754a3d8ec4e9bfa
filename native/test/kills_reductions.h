// Trials with reductions: a rank dies or freezes while gradients or all-reduces are added up, on one host and over several.
#pragma once

#include "trial.h"

namespace muster::test {

void strikeGradients(Trial& trial);
void strikeAllReduce(Trial& trial);

}  // namespace muster::test
