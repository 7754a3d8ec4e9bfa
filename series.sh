cd /tmp/w/rest/.muster/copy
S=""; for s in batch.groups_per_step=16 evaluation.every_steps=0 checkpoint.every_steps=10 optimizer.lr=0.0003 timing.heartbeat_interval=200ms timing.suspect_after=500ms timing.dead_after=2000ms health.probe_timeout=150ms health.readmit_after=1ms; do S="$S --set $s"; done
date; uptime
node packages/cli/bin/muster.mjs chaos --faults broker,controller,node --count 30 --pause 5 --minutes 13 --seed 7 --no-quiet-run --job recovery --json $S
echo rc $?; date; uptime
