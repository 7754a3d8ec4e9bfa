// The addon, built by `npm run setup`. Only @muster/collectives loads it.
module.exports = require("./build/Release/muster_native.node");
