// Applies one of two recurrences to each element, as filter_divergent.cu does. Both are value * factor + offset: the lane
// chooses two numbers instead of a branch, and every warp runs one loop.
__global__ void __launch_bounds__(256) filter(const float* __restrict__ in, float* __restrict__ out, int count, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float value = in[i];
    bool is_even = threadIdx.x % 2 == 0;
    float factor = is_even ? 0.75f : 0.5f;
    float offset = is_even ? 0.0f : 1.0f;
    for (int step = 0; step < steps; ++step) {
        value = value * factor + offset;
    }
    out[i] = value;
}
